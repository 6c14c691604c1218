package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/go/internal/breaker"
)

const (
	// breakersMax bounds what is remembered of breakers, this host's and foreign ones together.
	breakersMax = 4096
	hashSpan    = 24 * time.Hour
	leaveSpan   = time.Second
	// tries are two: the second one does not regard what this version cannot read.
	tries = 2
	// localToken marks tokens that this host granted to itself.
	localToken = 1 << 63
)

// ErrAlone tells that Redis is not reached. What was to be said is kept and said at the joining.
var ErrAlone = errors.New("redis is away: this host goes on alone")

// ErrExpired tells that a lease was over before it was given back: another host may have probed.
var ErrExpired = errors.New("the lease of the probe was over")

// Options are what a Board needs.
type Options struct {
	Redis  *redis.Client // of Connect; the caller's to close
	Prefix string        // of keys and channels
	// Host names this host, at most 128 bytes without a line feed; empty: the host's name and a
	// random number. No two living hosts may have the same.
	Host string
	Log  *slog.Logger // may be nil
}

// timing is what tests make shorter.
type timing struct {
	beat     time.Duration // between two signs of life
	presence time.Duration // after the last one a host counts as gone
	pauseMin time.Duration // between two attempts to join
	pauseMax time.Duration
}

var usual = timing{beat: 3 * time.Second, presence: 10 * time.Second,
	pauseMin: 100 * time.Millisecond, pauseMax: 5 * time.Second}

// Board is this host's view of what all hosts say of breakers. Its methods may be called from
// several goroutines.
type Board struct {
	o      Options
	timing timing
	mail   *mailbox
	kick   chan struct{} // of one: look at the connection at once
	cancel context.CancelFunc
	done   sync.WaitGroup

	ignored   atomic.Uint64
	lastLocal atomic.Uint64
	mu        sync.Mutex
	newest    map[string]breaker.Note
	unsent    map[string]bool // of newest: not known to be in Redis
	joined    bool
	hosts     int
}

// New starts a board. It does not wait for Redis.
func New(o Options) (*Board, error) { return start(o, usual) }

func start(o Options, t timing) (*Board, error) {
	if o.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name this host: %w", err)
		}
		o.Host = fmt.Sprintf("%.64s-%08x", name, rand.Uint32())
	}
	if err := check(breaker.Note{Breaker: "-", Host: o.Host}); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Board{o: o, timing: t, mail: newMailbox(), kick: make(chan struct{}, 1), cancel: cancel,
		newest: map[string]breaker.Note{}, unsent: map[string]bool{}}
	b.done.Go(func() { b.run(ctx) })
	b.done.Go(func() { b.mail.run(ctx.Done()) })
	return b, nil
}

func (b *Board) key(name string) string { return b.o.Prefix + ":" + name }

// Host is the name of this host.
func (b *Board) Host() string { return b.o.Host }

// Notes gives what other hosts say, the newest of each breaker. One that lay unread may be older
// than what was published here meanwhile: compare them. Closed by Close.
func (b *Board) Notes() <-chan breaker.Note { return b.mail.out }

// Alone tells that Redis is not reached.
func (b *Board) Alone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.joined
}

// Hosts is the number of hosts that live, this one included; 1 while alone.
func (b *Board) Hosts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.joined {
		return 1
	}
	return max(b.hosts, 1)
}

// Ignored counts notes of a format that this version does not know.
func (b *Board) Ignored() uint64 { return b.ignored.Load() }

// Publish tells a note to all. An empty Host is this one. On an error, ErrAlone among them, the
// note is kept and told as soon as Redis is there, or when it is published again; only a note that
// makes no sense is dropped. One that is not newer than what is known is not told: its maker has
// the newer one in Notes, or soon.
func (b *Board) Publish(ctx context.Context, n breaker.Note) error {
	if n.Host == "" {
		n.Host = b.o.Host
	}
	if _, err := encode(n); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	b.mu.Lock()
	known, ok := b.newest[n.Breaker]
	again := ok && b.unsent[n.Breaker] && n.Compare(known) == 0
	if ok && !newer(n, known) && !again {
		b.mu.Unlock()
		return nil
	}
	if !ok && len(b.newest) >= breakersMax {
		b.mu.Unlock()
		return fmt.Errorf("publish: more than %d breakers", breakersMax)
	}
	b.newest[n.Breaker], b.unsent[n.Breaker] = n, true
	joined := b.joined
	b.mu.Unlock()
	if !joined {
		return ErrAlone
	}
	if err := b.send(ctx, n); err != nil {
		signal(b.kick)
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// send puts one note into Redis, or learns the newer one that is there.
func (b *Board) send(ctx context.Context, n breaker.Note) error {
	text, err := encode(n)
	if err != nil {
		return err
	}
	var known, unreadable string
	for range tries {
		known, err = publishScript.Run(ctx, b.o.Redis, []string{b.key("notes")}, n.Breaker, text,
			unreadable).Text()
		if err != nil {
			return err
		}
		if known == "" || b.accept(known) {
			break
		}
		unreadable = known
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest[n.Breaker] == n {
		delete(b.unsent, n.Breaker)
	}
	return nil
}

// accept takes a note from Redis; false: it is none that can be read. Our own, and what is older
// than it, comes to nothing.
func (b *Board) accept(text string) bool {
	n, err := decode(text)
	if err != nil {
		b.ignored.Add(1)
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.newest[n.Breaker]
	if !ok && len(b.newest) >= breakersMax {
		b.ignored.Add(1)
		return false
	}
	if ok && !newer(n, known) {
		return true
	}
	b.newest[n.Breaker] = n
	delete(b.unsent, n.Breaker)
	b.mail.put(n)
	return true
}

// TryProbe asks for the lease of a breaker's probe. Of all hosts one gets it, until EndProbe or for
// ttl, and only one that knows the newest note: publish what a probe led to before ending it, and
// nobody repeats it. The token is larger than every earlier one. While alone the lease is granted
// here, with a token for which Local holds. An error grants nothing; where Redis stays away, Alone
// holds soon.
func (b *Board) TryProbe(ctx context.Context, name string, ttl time.Duration) (
	token uint64, ok bool, err error) {
	if ttl < time.Millisecond {
		return 0, false, fmt.Errorf("probe of %s: a lease of %v, want 1ms at least", name, ttl)
	}
	b.mu.Lock()
	joined, known, unread := b.joined, b.newest[name], b.mail.holds(name)
	b.mu.Unlock()
	if !joined {
		return localToken | b.lastLocal.Add(1), true, nil
	}
	if unread {
		return 0, false, nil
	}
	text, err := b.lease(ctx, name, known, ttl)
	if err != nil {
		signal(b.kick)
		return 0, false, fmt.Errorf("probe of %s: %w", name, err)
	}
	if text == "" {
		return 0, false, nil
	}
	token, err = strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, false, fmt.Errorf("probe of %s: the token: %w", name, err)
	}
	return token, true, nil
}

// lease gives the token in digits, or nothing.
func (b *Board) lease(ctx context.Context, name string, known breaker.Note, ttl time.Duration) (
	string, error) {
	keys := []string{b.key("probe:" + name), b.key("token"), b.key("notes")}
	unreadable := ""
	for range tries {
		got, err := probeScript.Run(ctx, b.o.Redis, keys, name, rank(known), ttl.Milliseconds(),
			unreadable).StringSlice()
		if err != nil {
			return "", err
		}
		if len(got) != 2 {
			return "", fmt.Errorf("%d replies where 2 were due", len(got))
		}
		if got[1] == "" || b.accept(got[1]) {
			return got[0], nil
		}
		unreadable = got[1]
	}
	return "", nil
}

// EndProbe gives a lease back. ErrExpired tells that it was over by itself.
func (b *Board) EndProbe(ctx context.Context, name string, token uint64) error {
	if Local(token) {
		return nil
	}
	freed, err := endScript.Run(ctx, b.o.Redis, []string{b.key("probe:" + name)},
		strconv.FormatUint(token, 10)).Int()
	if err != nil {
		signal(b.kick)
		return fmt.Errorf("end the probe of %s: %w", name, err)
	}
	if freed == 0 {
		return fmt.Errorf("end the probe of %s: %w", name, ErrExpired)
	}
	return nil
}

// Local tells that a token was granted by a host to itself, while it was alone.
func Local(token uint64) bool { return token&localToken != 0 }

// Close leaves the others and ends the board.
func (b *Board) Close() error {
	joined := !b.Alone()
	b.cancel()
	b.done.Wait()
	if !joined {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveSpan)
	defer cancel()
	if err := b.o.Redis.ZRem(ctx, b.key("hosts"), b.o.Host).Err(); err != nil {
		return fmt.Errorf("leave the other hosts: %w", err)
	}
	return nil
}
