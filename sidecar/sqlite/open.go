package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// Options say which file a Store keeps.
type Options struct {
	// Path of the file; it and its folder are made when they do not exist.
	Path string
	// Ephemeral keeps the state in a private temporary folder instead, which
	// Close removes. Path is not used then.
	Ephemeral bool
	// LockWait is how long Open waits for another process to let go of the
	// file; 0: 5 s, less than 0: not at all.
	LockWait time.Duration
	// Waits is called once, with a sentence about who, when another process
	// holds the file and Open waits for it; nil: nobody is told.
	Waits func(reason string)
	// Reserve is how much of the disk is kept for deleting when there is no
	// other space, in bytes; 0: nothing.
	Reserve int64
	// Logger gets what nobody is waiting to hear; nil: nothing does.
	Logger *slog.Logger
}

// maxReaders bounds the reading connections: each has its own page cache, and
// more of them than cores only lengthen the writer's tail.
const maxReaders = 8

// Store is a [sidecar.Store] on one SQLite file. Its methods may be called
// from many goroutines at once.
type Store struct {
	path   string
	folder string // of an ephemeral store
	log    *slog.Logger
	lock   *fileLock

	writeDB *sql.DB
	readDB  *sql.DB
	readers chan *session
	reading int // sessions that were opened for readers

	writer   *writer
	turn     chan struct{} // holds something while somebody uses the writer
	queue    chan *request
	troubled chan struct{} // tells the writer's loop that writing stopped working
	closing  chan struct{}
	done     sync.WaitGroup // the writer's loop
	close    func() error
	// walking is held by those who walk the file, and waited for by Close.
	walking sync.RWMutex

	epoch     int64  // raised at each open
	life      string // the mark of this start; empty where none is needed
	place     *place
	reserve   reserve // of the writer
	pruneTime time.Duration
	floors    floors
	stats     counters
	trouble   atomic.Pointer[trouble]
	tail      *tail
	versions  *versions
	working   working
	bell      sidecar.Bell
}

var _ sidecar.Store = (*Store)(nil)

// Open opens or makes the state database, brings its schema up to date, makes
// our tables agree with what the reference did to its own meanwhile, and
// starts the writer, which Close ends. A file that cannot be the state
// database is refused untouched with a *sidecar.Error that names it and says
// what to do.
func Open(ctx context.Context, options Options) (*Store, error) {
	s, err := open(ctx, options, time.Time{})
	if !noSpace(err) {
		return s, err
	}
	spent := reserveOf(options, time.Time{})
	if let, failed := spent.spend(); !let {
		return nil, errors.Join(err, failed)
	}
	return open(ctx, options, spent.spent)
}

// open opens a store whose reserve was spent at a time, or not.
func open(ctx context.Context, options Options, spent time.Time) (*Store, error) {
	s := &Store{
		log:       options.Logger,
		turn:      make(chan struct{}, 1),
		queue:     make(chan *request),
		troubled:  make(chan struct{}, 1),
		closing:   make(chan struct{}),
		pruneTime: pruneTime,
		versions:  newVersions(time.Now()),
	}
	if s.log == nil {
		s.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s.close = sync.OnceValue(s.shut)
	if err := s.locate(ctx, options); err != nil {
		return nil, err
	}
	s.reserve = reserveOf(options, spent)
	if err := s.start(ctx, options.Ephemeral); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// locate finds the file, takes its lock and refuses what is not ours.
func (s *Store) locate(ctx context.Context, options Options) error {
	if options.Ephemeral {
		return s.locateEphemeral()
	}
	if options.Path == "" {
		return errors.New("open the state database: no path was given")
	}
	path, err := filepath.Abs(options.Path)
	if err != nil {
		return fmt.Errorf("open the state database: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return refusal(path, "its folder cannot be made", "Choose another file with --state-db.", err)
	}
	wait := options.LockWait
	if wait == 0 {
		wait = lockWait
	}
	s.path = path
	s.lock, err = waitLock(ctx, path, wait, options.Waits)
	return err
}

func (s *Store) start(ctx context.Context, ephemeral bool) error {
	filled, err := inspect(ctx, s.path)
	if err != nil {
		err = errors.Join(err, s.lock.discard())
		s.lock = nil
		return err
	}
	if err := removeCopy(realPath(s.path) + unreadySuffix); err != nil {
		s.log.Warn("what a broken-off restore left could not be removed", "error", err)
	}
	if err := s.drawLife(ctx, filled, ephemeral); err != nil {
		return fmt.Errorf("sign the lock of %s: %w", s.path, err)
	}
	if err := s.connect(ctx, ephemeral); err != nil {
		return opening(s.path, err)
	}
	if err := s.prepare(ctx, filled); err != nil {
		return err
	}
	w, err := s.newWriter(ctx)
	if err != nil {
		return opening(s.path, err)
	}
	if err := w.begun(); err != nil {
		w.end()
		return err
	}
	s.writer = w
	s.done.Go(w.loop)
	return nil
}

// dsn makes a connection string of a path and parameters. Pragmas stand in it
// because a pool opens connections as it likes: set by a statement, they would
// reach one of them.
func dsn(path string, parameters ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: strings.Join(parameters, "&")}
	return u.String()
}

// writerDSN: busy_timeout comes first, since the pragmas after it may meet a
// lock.
func writerDSN(path string, ephemeral bool) (string, error) {
	vfs, synchronous := "", "OFF"
	if !ephemeral {
		name, err := swift()
		if err != nil {
			return "", err
		}
		vfs, synchronous = "vfs="+name, "FULL"
	}
	return dsn(path,
		vfs,
		"_txlock=immediate",
		"_pragma=busy_timeout(5000)",
		"_pragma=journal_mode(WAL)",
		"_pragma=synchronous("+synchronous+")",
		"_pragma=foreign_keys(1)",
		"_pragma=journal_size_limit(67108864)",
		// 8 MiB: each move of the log into the file costs three syncs.
		"_pragma=wal_autocheckpoint(2000)",
		"_dqs=0",
	), nil
}

func readerDSN(path string) string {
	return dsn(path,
		"mode=rw",
		"_pragma=busy_timeout(5000)",
		"_pragma=foreign_keys(1)",
		"_pragma=query_only(1)",
		"_dqs=0",
	)
}

func (s *Store) connect(ctx context.Context, ephemeral bool) (err error) {
	writing, err := writerDSN(s.path, ephemeral)
	if err != nil {
		return err
	}
	if s.writeDB, err = sql.Open("sqlite", writing); err != nil {
		return err
	}
	s.writeDB.SetMaxOpenConns(1)
	if err := s.writeDB.PingContext(ctx); err != nil {
		return err
	}
	readers := min(max(1, runtime.NumCPU()-1), maxReaders)
	if s.readDB, err = sql.Open("sqlite", readerDSN(s.path)); err != nil {
		return err
	}
	s.readDB.SetMaxOpenConns(readers + 2) // two more for Verify and Prune
	s.readers = make(chan *session, readers)
	for range readers {
		reader, err := openSession(ctx, s.readDB)
		if err != nil {
			return err
		}
		s.readers <- reader
		s.reading++
	}
	return nil
}

// Path is where the file is.
func (s *Store) Path() string { return s.path }

// Close ends the writer when it has committed what it holds, closes the file
// and frees its lock. Calls that wait get ErrClosed.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	close(s.closing)
	s.done.Wait()
	s.walking.Lock()
	defer s.walking.Unlock()
	return s.release()
}

func (s *Store) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// release gives back what Open took, as far as it came.
func (s *Store) release() error {
	var errs []error
	if s.readDB != nil {
		errs = append(errs, s.closeReaders(), s.readDB.Close())
	}
	if s.writeDB != nil {
		errs = append(errs, s.writeDB.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// closeReaders waits for those who read to be done: each is done in moments.
func (s *Store) closeReaders() error {
	var errs []error
	for range s.reading {
		select {
		case reader := <-s.readers:
			errs = append(errs, reader.close())
		case <-time.After(5 * time.Second):
			return errors.Join(append(errs, errors.New("a reader did not end"))...)
		}
	}
	return errors.Join(errs...)
}

// view lends a reading connection to read. With whole set, all that read sees
// is of one moment.
func (s *Store) view(ctx context.Context, whole bool, read func(querier) error) error {
	if s.closed() {
		return ErrClosed
	}
	var reader *session
	select {
	case reader = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	}
	defer func() { s.readers <- reader }()
	err := reader.read(whole, read)
	if damageOf(err) != harmless {
		return storageError(s.path, err)
	}
	return err
}

func (s *session) read(whole bool, read func(querier) error) (err error) {
	if whole {
		if _, err := s.exec("BEGIN"); err != nil {
			return err
		}
		defer func() {
			_, rollback := s.exec("ROLLBACK")
			err = errors.Join(err, rollback)
		}()
	}
	return read(s)
}
