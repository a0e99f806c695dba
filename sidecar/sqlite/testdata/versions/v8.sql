-- A state database of schema 8, as its version left it.
BEGIN TRANSACTION;
CREATE TABLE blobs (
    sha256 TEXT NOT NULL PRIMARY KEY,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
);
INSERT INTO "blobs" VALUES('eef93e1d14482804277fca0172464032d1a4fdbcc338524059fa1e861454ad4d',5,X'6772617068');
INSERT INTO "blobs" VALUES('cc8321d6375c494d043fdd0260f21bc0ec51dacc9f6abb7f909cdcd3041b78bf',8,X'636F6E7472616374');
CREATE TABLE commands (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    hash BLOB NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    at TEXT NOT NULL,
    status INTEGER NOT NULL DEFAULT 0,
    header TEXT,
    answer BLOB
);
INSERT INTO "commands" VALUES(1,'alice','key1',X'0001FF','alice','run_contract','','2026-03-04T06:06:07.089Z',200,'{"Content-Type":["a"],"X":["b","c"]}',X'7B7D00');
CREATE TABLE cursors (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer TEXT NOT NULL UNIQUE,
    target TEXT NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
);
INSERT INTO "cursors" VALUES(1,'callback/run_alic0000000000000000000000000003','{"run_id":"","url":"http://front.invalid"}',0,0,'','');
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    revision INTEGER NOT NULL,
    type TEXT NOT NULL,
    targets TEXT NOT NULL,
    at TEXT NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO "events" VALUES(1,'run_alic0000000000000000000000000001','alice',0,'run_started','{"run":{"status":"submitted"}}','2026-03-04T05:06:08.089Z',X'86D07D938BBEC9A60ACA0A660A38B64271ACB1534D20EE751C47FFBEBB4671F9');
INSERT INTO "events" VALUES(2,'run_alic0000000000000000000000000001','alice',1,'run_progress','{"run":{"status":"submitted","phase":"submitting","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z"}}','2026-03-04T05:06:09.089Z',X'6937BBA3DDA89F6EF3FBED926FE1A6C1B510EF7E0A6150FE8BE7864B4AFE89EA');
INSERT INTO "events" VALUES(3,'run_alic0000000000000000000000000001','alice',2,'run_progress','{"items/gallery_run_alic0000000000000000000000000001":{"slotId":"slot_run_alic0000000000000000000000000001_0_image","outputName":"image","type":"image","status":"pending","width":1,"height":1},"items/gallery_slot_run_alic0000000000000000000000000001_1_text":{"slotId":"slot_run_alic0000000000000000000000000001_1_text","outputName":"text","type":"json","status":"pending","width":0,"height":0},"run":{"status":"running","phase":"queued","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z"},"slots/slot_run_alic0000000000000000000000000001_0_image":{"outputName":"image","type":"image","status":"running","width":1,"height":1},"slots/slot_run_alic0000000000000000000000000001_1_text":{"outputName":"text","type":"json","status":"running","width":0,"height":0}}','2026-03-04T05:06:10.089Z',X'F30923B310083C9B97FF1A4A787D312DB5DFE08C0A4680397572D2F573BE99AE');
INSERT INTO "events" VALUES(4,'run_alic0000000000000000000000000001','alice',3,'run_progress','{"nodes/7/1":{"class_type":"KSampler","startedAt":"2026-03-04T05:06:11.089Z"},"run":{"status":"running","phase":"executing","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z","startedAt":"2026-03-04T05:06:11.089Z"}}','2026-03-04T05:06:11.089Z',X'8D03367479A0880D02A56BE2D553DEF2CF14451D1EE677F13C6A99B2652F89A6');
INSERT INTO "events" VALUES(5,'run_alic0000000000000000000000000001','alice',4,'node_finished','{"nodes/7/1":{"class_type":"KSampler","startedAt":"2026-03-04T05:06:11.089Z","finishedAt":"2026-03-04T05:06:12.089Z"},"run":{"status":"running","phase":"executing","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z","startedAt":"2026-03-04T05:06:11.089Z"}}','2026-03-04T05:06:12.089Z',X'9EB630BF6814B5F49D95C735598E7DE373B6D6DE13411F0426A93CAD4C329E29');
INSERT INTO "events" VALUES(6,'run_alic0000000000000000000000000001','alice',5,'run_output_completed','{"items/gallery_run_alic0000000000000000000000000001":{"slotId":"slot_run_alic0000000000000000000000000001_0_image","outputName":"image","type":"json","status":"done","width":1,"height":1},"run":{"status":"completed","phase":"executing","outcome":"completed","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z","startedAt":"2026-03-04T05:06:11.089Z"},"slots/slot_run_alic0000000000000000000000000001_0_image":{"outputName":"image","type":"image","status":"empty","width":1,"height":1}}','2026-03-04T05:06:13.089Z',X'3413386955617834AC38E742F5F0519175E43AE8AB393218F2CE7460A6466E33');
INSERT INTO "events" VALUES(7,'run_alic0000000000000000000000000001','alice',6,'run_output_completed','{"items/gallery_slot_run_alic0000000000000000000000000001_1_text":{"slotId":"slot_run_alic0000000000000000000000000001_1_text","outputName":"text","type":"json","status":"done","width":1,"height":1},"run":{"status":"completed","phase":"executing","outcome":"completed","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z","startedAt":"2026-03-04T05:06:11.089Z"},"slots/slot_run_alic0000000000000000000000000001_1_text":{"outputName":"text","type":"json","status":"empty","width":0,"height":0}}','2026-03-04T05:06:13.089Z',X'25721608E6BF65E3290947DC76DBC086F147452B7CE171BCD58DA7F647BBA1C7');
INSERT INTO "events" VALUES(8,'run_alic0000000000000000000000000001','alice',7,'run_completed','{"run":{"status":"completed","phase":"finished","outcome":"completed","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:08.089Z","startedAt":"2026-03-04T05:06:11.089Z","finishedAt":"2026-03-04T05:06:13.089Z"}}','2026-03-04T05:06:13.089Z',X'25514388602B99837787FF04A204A9B46A00B1E531A082782F105F6F4C45531A');
INSERT INTO "events" VALUES(9,'run_alic0000000000000000000000000002','alice',0,'run_started','{"run":{"status":"submitted"}}','2026-03-04T05:06:09.089Z',X'BC23FA21D7F6BED79BFFF459C8D96BCFD465C190C0F351AE200ABD4D4E8F6019');
INSERT INTO "events" VALUES(10,'run_alic0000000000000000000000000002','alice',1,'run_cancelled','{"run":{"status":"cancelled","phase":"finished","outcome":"cancelled","error":"Generation cancelled.","workflow":"solid","contract":"default","attempt":0,"createdAt":"2026-03-04T05:06:09.089Z","finishedAt":"2026-03-04T05:06:10.089Z"},"slots/slot_run_alic0000000000000000000000000002_0_image":{"outputName":"image","type":"image","status":"cancelled","width":1,"height":1,"error":"Generation cancelled."},"slots/slot_run_alic0000000000000000000000000002_1_text":{"outputName":"text","type":"json","status":"cancelled","width":0,"height":0,"error":"Generation cancelled."}}','2026-03-04T05:06:10.089Z',X'AD34EADDA705AC6596DF013FF8271F9838ED96993DE8CED305040996B25BAF18');
INSERT INTO "events" VALUES(11,'run_alic0000000000000000000000000003','alice',0,'run_started','{"run":{"status":"submitted"}}','2026-03-04T05:06:10.089Z',X'5A549829D381CEDAF4C3B781F5965AEE93E4E28716379D81E192F31E2324DE12');
INSERT INTO "events" VALUES(12,'run_alic0000000000000000000000000003','alice',1,'run_progress','{"run":{"status":"submitted","phase":"submitting","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:10.089Z"}}','2026-03-04T05:06:11.089Z',X'33407A3EA4EA9120C6DF8AA19AAF19B8E4084F760A77A32A098931E672D7EC14');
INSERT INTO "events" VALUES(13,'run_alic0000000000000000000000000003','alice',2,'run_progress','{"items/gallery_run_alic0000000000000000000000000003":{"slotId":"slot_run_alic0000000000000000000000000003_0_image","outputName":"image","type":"image","status":"pending","width":1,"height":1},"items/gallery_slot_run_alic0000000000000000000000000003_1_text":{"slotId":"slot_run_alic0000000000000000000000000003_1_text","outputName":"text","type":"json","status":"pending","width":0,"height":0},"run":{"status":"running","phase":"queued","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","workflow":"solid","contract":"default","attempt":1,"createdAt":"2026-03-04T05:06:10.089Z"},"slots/slot_run_alic0000000000000000000000000003_0_image":{"outputName":"image","type":"image","status":"running","width":1,"height":1},"slots/slot_run_alic0000000000000000000000000003_1_text":{"outputName":"text","type":"json","status":"running","width":0,"height":0}}','2026-03-04T05:06:12.089Z',X'AA05E82AF04583F232577375E71FA72018FD25C1082A7ED818AAF1DCE06904D3');
INSERT INTO "events" VALUES(14,'','',0,'health_changed','{"n":1}','2026-03-04T05:06:07.089Z',X'4B2A425C9A6D95CA80C2AF2605AF388B0EC86884E32630182B509BE3D7664C74');
CREATE TABLE files (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '',
    scope TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    mime TEXT NOT NULL DEFAULT '',
    announced INTEGER NOT NULL DEFAULT -1,
    size INTEGER NOT NULL DEFAULT 0,
    sha256 TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL,
    token_hash BLOB,
    state TEXT NOT NULL,
    writes INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
INSERT INTO "files" VALUES('upload_00000000000000000000000000000001','upload','anna','anna','ünï.png','image/png',-1,5,'0000000000000000000000000000000000000000000000000000000000000000','upload_00000000000000000000000000000001_ünï.png',X'0001FF','ready',2,'2026-03-04T05:06:07.089Z','2026-03-04T06:06:07.089Z');
CREATE TABLE gallery_items (
    item_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    workflow TEXT NOT NULL,
    contract TEXT NOT NULL,
    status TEXT NOT NULL,
    output_type TEXT NOT NULL,
    slot_id TEXT,
    output_name TEXT,
    prompt_id TEXT,
    filename TEXT,
    url TEXT,
    width INTEGER,
    height INTEGER,
    inputs_json TEXT NOT NULL,
    artifact_json TEXT,
    raw_result_json TEXT,
    error TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
INSERT INTO "gallery_items" VALUES('gallery_run_alic0000000000000000000000000001','run_alic0000000000000000000000000001','alice','alice','solid','default','done','json','slot_run_alic0000000000000000000000000001_0_image','image','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',NULL,NULL,1,1,'{"seed":18446744073709551615,"cfg":1.0}',NULL,'{"status":"completed","run_id":"run_alic0000000000000000000000000001","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}],"outputs":[]}',NULL,'2026-03-04T05:06:08.089Z','2026-03-04T05:06:13.089Z');
INSERT INTO "gallery_items" VALUES('gallery_slot_run_alic0000000000000000000000000001_1_text','run_alic0000000000000000000000000001','alice','alice','solid','default','done','json','slot_run_alic0000000000000000000000000001_1_text','text','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',NULL,NULL,1,1,'{"seed":18446744073709551615,"cfg":1.0}',NULL,'{"status":"completed","run_id":"run_alic0000000000000000000000000001","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}],"outputs":[]}',NULL,'2026-03-04T05:06:08.088Z','2026-03-04T05:06:13.089Z');
INSERT INTO "gallery_items" VALUES('gallery_run_alic0000000000000000000000000003','run_alic0000000000000000000000000003','alice','alice','solid','default','pending','image','slot_run_alic0000000000000000000000000003_0_image','image','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',NULL,NULL,1,1,'{"seed":18446744073709551615,"cfg":1.0}',NULL,'{"status":"submitted","run_id":"run_alic0000000000000000000000000003","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}]}',NULL,'2026-03-04T05:06:10.089Z','2026-03-04T05:06:12.089Z');
INSERT INTO "gallery_items" VALUES('gallery_slot_run_alic0000000000000000000000000003_1_text','run_alic0000000000000000000000000003','alice','alice','solid','default','pending','json','slot_run_alic0000000000000000000000000003_1_text','text','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',NULL,NULL,NULL,NULL,'{"seed":18446744073709551615,"cfg":1.0}',NULL,'{"status":"submitted","run_id":"run_alic0000000000000000000000000003","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}]}',NULL,'2026-03-04T05:06:10.088Z','2026-03-04T05:06:12.089Z');
CREATE TABLE node_runs (
    run_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    node TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    class TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    parent TEXT NOT NULL DEFAULT '',
    cached INTEGER NOT NULL DEFAULT 0,
    started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '',
    files INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, ordinal)
) WITHOUT ROWID;
INSERT INTO "node_runs" VALUES('run_alic0000000000000000000000000001',0,'7',1,'KSampler','','',0,'2026-03-04T05:06:11.089Z','2026-03-04T05:06:12.089Z','',0,0);
CREATE TABLE output_slots (
    slot_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    workflow TEXT NOT NULL,
    contract TEXT NOT NULL,
    output_name TEXT NOT NULL,
    output_type TEXT NOT NULL,
    status TEXT NOT NULL,
    prompt_id TEXT,
    width INTEGER,
    height INTEGER,
    error TEXT,
    raw_result_json TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
INSERT INTO "output_slots" VALUES('slot_run_alic0000000000000000000000000001_0_image','run_alic0000000000000000000000000001','alice','alice','solid','default','image','image','empty','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',1,1,NULL,'{"status":"completed","run_id":"run_alic0000000000000000000000000001","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}],"outputs":[]}','2026-03-04T05:06:08.089Z','2026-03-04T05:06:13.089Z');
INSERT INTO "output_slots" VALUES('slot_run_alic0000000000000000000000000001_1_text','run_alic0000000000000000000000000001','alice','alice','solid','default','text','json','empty','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',NULL,NULL,NULL,'{"status":"completed","run_id":"run_alic0000000000000000000000000001","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}],"outputs":[]}','2026-03-04T05:06:08.089Z','2026-03-04T05:06:13.089Z');
INSERT INTO "output_slots" VALUES('slot_run_alic0000000000000000000000000002_0_image','run_alic0000000000000000000000000002','alice','alice','solid','default','image','image','cancelled',NULL,1,1,'Generation cancelled.','{"status":"cancelled","run_id":"run_alic0000000000000000000000000002","prompt_id":null,"message":"Generation cancelled."}','2026-03-04T05:06:09.089Z','2026-03-04T05:06:10.089Z');
INSERT INTO "output_slots" VALUES('slot_run_alic0000000000000000000000000002_1_text','run_alic0000000000000000000000000002','alice','alice','solid','default','text','json','cancelled',NULL,NULL,NULL,'Generation cancelled.','{"status":"cancelled","run_id":"run_alic0000000000000000000000000002","prompt_id":null,"message":"Generation cancelled."}','2026-03-04T05:06:09.089Z','2026-03-04T05:06:10.089Z');
INSERT INTO "output_slots" VALUES('slot_run_alic0000000000000000000000000003_0_image','run_alic0000000000000000000000000003','alice','alice','solid','default','image','image','running','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',1,1,NULL,'{"status":"running","run_id":"run_alic0000000000000000000000000003","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"}','2026-03-04T05:06:10.089Z','2026-03-04T05:06:12.089Z');
INSERT INTO "output_slots" VALUES('slot_run_alic0000000000000000000000000003_1_text','run_alic0000000000000000000000000003','alice','alice','solid','default','text','json','running','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f',NULL,NULL,NULL,'{"status":"running","run_id":"run_alic0000000000000000000000000003","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f"}','2026-03-04T05:06:10.089Z','2026-03-04T05:06:12.089Z');
CREATE TABLE run_state (
    run_id TEXT NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL DEFAULT 0,
    retained_from INTEGER NOT NULL DEFAULT 0,
    head_hash BLOB,
    base_hash BLOB,
    phase TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    cancel TEXT NOT NULL DEFAULT '',
    attempt INTEGER NOT NULL DEFAULT 0,
    accepted INTEGER NOT NULL DEFAULT 0,
    prompt_id TEXT NOT NULL DEFAULT '',
    due_at TEXT NOT NULL DEFAULT '',
    wait_reason TEXT NOT NULL DEFAULT '',
    position INTEGER,
    parent TEXT,
    after_run TEXT,
    contract TEXT NOT NULL DEFAULT '',
    graph TEXT NOT NULL DEFAULT '',
    environment_ref TEXT,
    manifest_revision TEXT NOT NULL DEFAULT '',
    prompt_digest TEXT NOT NULL DEFAULT '',
    issues TEXT,
    deleted TEXT,
    title TEXT,
    pinned INTEGER NOT NULL DEFAULT 0,
    started_at TEXT NOT NULL DEFAULT '',
    finished_at TEXT NOT NULL DEFAULT '',
    row_updated_at TEXT NOT NULL
, uploads TEXT, bytes INTEGER, digest TEXT, hold TEXT);
INSERT INTO "run_state" VALUES('run_alic0000000000000000000000000001',7,0,X'25514388602B99837787FF04A204A9B46A00B1E531A082782F105F6F4C45531A',NULL,'finished','completed','','',1,1,'3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f','2026-03-04T06:06:08.089Z','',NULL,NULL,NULL,'cc8321d6375c494d043fdd0260f21bc0ec51dacc9f6abb7f909cdcd3041b78bf','eef93e1d14482804277fca0172464032d1a4fdbcc338524059fa1e861454ad4d','{"environment":"e"}','sha256:00','sha256:11','[{"code":"w"}]',NULL,NULL,0,'2026-03-04T05:06:11.089Z','2026-03-04T05:06:13.089Z','2026-03-04T05:06:13.089Z',NULL,NULL,'0:1c918709183e0fd33bc361336d4dd027318a1cb3c4f0cb05baaef66afedddb3a',NULL);
INSERT INTO "run_state" VALUES('run_alic0000000000000000000000000002',1,0,X'AD34EADDA705AC6596DF013FF8271F9838ED96993DE8CED305040996B25BAF18',NULL,'finished','cancelled','','',0,0,'3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f','2026-03-04T06:06:09.089Z','',NULL,NULL,NULL,'cc8321d6375c494d043fdd0260f21bc0ec51dacc9f6abb7f909cdcd3041b78bf','eef93e1d14482804277fca0172464032d1a4fdbcc338524059fa1e861454ad4d','{"environment":"e"}','sha256:00','sha256:11','[{"code":"w"}]',NULL,NULL,0,'','2026-03-04T05:06:10.089Z','2026-03-04T05:06:10.089Z',NULL,NULL,'0:16f3e6a673c7b43e7d6857acb13ef5f0b2e923a350eefefa25c05c4d2ce49e1e',NULL);
INSERT INTO "run_state" VALUES('run_alic0000000000000000000000000003',2,0,X'AA05E82AF04583F232577375E71FA72018FD25C1082A7ED818AAF1DCE06904D3',NULL,'queued','','','',1,1,'3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f','2026-03-04T06:06:10.089Z','',NULL,NULL,NULL,'cc8321d6375c494d043fdd0260f21bc0ec51dacc9f6abb7f909cdcd3041b78bf','eef93e1d14482804277fca0172464032d1a4fdbcc338524059fa1e861454ad4d','{"environment":"e"}','sha256:00','sha256:11','[{"code":"w"}]',NULL,NULL,0,'','','2026-03-04T05:06:12.089Z',NULL,NULL,NULL,NULL);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    workflow TEXT NOT NULL,
    contract TEXT NOT NULL,
    status TEXT NOT NULL,
    prompt_id TEXT,
    inputs_json TEXT NOT NULL,
    raw_result_json TEXT,
    error TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
INSERT INTO "runs" VALUES('run_alic0000000000000000000000000001','alice','alice','solid','default','completed','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f','{"seed":18446744073709551615,"cfg":1.0}','{"status":"completed","run_id":"run_alic0000000000000000000000000001","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}],"outputs":[]}',NULL,'2026-03-04T05:06:08.089Z','2026-03-04T05:06:13.089Z');
INSERT INTO "runs" VALUES('run_alic0000000000000000000000000002','alice','alice','solid','default','cancelled',NULL,'{"seed":18446744073709551615,"cfg":1.0}','{"status":"cancelled","run_id":"run_alic0000000000000000000000000002","prompt_id":null,"message":"Generation cancelled."}','Generation cancelled.','2026-03-04T05:06:09.089Z','2026-03-04T05:06:10.089Z');
INSERT INTO "runs" VALUES('run_alic0000000000000000000000000003','alice','alice','solid','default','running','3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f','{"seed":18446744073709551615,"cfg":1.0}','{"status":"running","run_id":"run_alic0000000000000000000000000003","prompt_id":"3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f","issues":[{"code":"w"}]}',NULL,'2026-03-04T05:06:10.089Z','2026-03-04T05:06:12.089Z');
CREATE TABLE serve_state_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
INSERT INTO "serve_state_meta" VALUES('schema_version','2');
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    scope_key TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
INSERT INTO "sessions" VALUES('alice','alice','2026-11-30T16:07:37.266Z','2026-11-30T16:07:37.266Z');
CREATE TABLE sidecar_meta (
    key TEXT NOT NULL PRIMARY KEY,
    value
) WITHOUT ROWID;
INSERT INTO "sidecar_meta" VALUES('epoch',2);
INSERT INTO "sidecar_meta" VALUES('foreign_opens',0);
INSERT INTO "sidecar_meta" VALUES('foreign_seen',0);
INSERT INTO "sidecar_meta" VALUES('head',14);
INSERT INTO "sidecar_meta" VALUES('head_hash',X'4B2A425C9A6D95CA80C2AF2605AF388B0EC86884E32630182B509BE3D7664C74');
INSERT INTO "sidecar_meta" VALUES('reset_to',0);
INSERT INTO "sidecar_meta" VALUES('trimmed_to',0);
CREATE INDEX idx_gallery_items_scope_created_item
    ON gallery_items(scope_key, created_at DESC, item_id DESC);
CREATE INDEX idx_gallery_items_scope_run
    ON gallery_items(scope_key, run_id);
CREATE INDEX idx_runs_scope_status_created
    ON runs(scope_key, status, created_at DESC);
CREATE INDEX idx_output_slots_scope_run
    ON output_slots(scope_key, run_id);
CREATE TRIGGER sidecar_foreign_open AFTER UPDATE ON serve_state_meta
BEGIN
    UPDATE sidecar_meta SET value = value + 1 WHERE key = 'foreign_opens';
END;
CREATE INDEX events_run ON events(run_id, seq);
CREATE INDEX events_scope ON events(scope, seq);
CREATE INDEX files_expiry ON files(kind, expires_at);
CREATE UNIQUE INDEX commands_key ON commands(owner, key);
CREATE INDEX commands_session ON commands(session_id, seq);
CREATE INDEX commands_at ON commands(at);
CREATE INDEX run_state_kept ON run_state(finished_at, run_id, bytes)
    WHERE phase = 'finished' AND pinned = 0 AND finished_at <> '';
CREATE INDEX run_state_graph ON run_state(substr(graph, 1, 16));
CREATE INDEX run_state_contract ON run_state(substr(contract, 1, 16));
CREATE INDEX run_state_parent ON run_state(parent, run_id) WHERE parent IS NOT NULL;
CREATE INDEX sidecar_runs_by_time
    ON runs(scope_key, created_at, run_id);
CREATE INDEX sidecar_runs_by_workflow
    ON runs(scope_key, workflow, created_at, run_id);
CREATE INDEX run_state_unfinished ON run_state(phase) WHERE phase <> 'finished';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('cursors',1);
INSERT INTO "sqlite_sequence" VALUES('commands',1);
COMMIT;
PRAGMA application_id = 1397975396;
PRAGMA user_version = 8;
