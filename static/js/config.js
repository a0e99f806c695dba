// What the server told the page about itself; see the meta element of index.html.

const given = document.querySelector('meta[name="studio-config"]').content;
// A page that no server has filled in still shows itself, with addresses relative to its own.
const values = given.startsWith("{") ? JSON.parse(given) : {};

export const environment = values.environment ?? "";
export const mustSignIn = values.authMode === "endpoint";
export const version = values.version ?? "";
const apiBase = new URL((values.apiBase ?? ".").replace(/\/*$/, "/"), document.baseURI);

// api gives the address of a route; path has no leading slash.
export const api = (path) => new URL(path, apiBase).href;
