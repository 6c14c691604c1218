package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/go/internal/breaker"
)

const (
	// messagesMax is how many messages may lie between the connection and the board.
	messagesMax = 64
	scanCount   = 512
)

// errSilent tells of a subscription that answers nothing, though its connection seems to stand.
var errSilent = errors.New("the subscription does not answer")

// run joins again and again until ctx ends. Of a stretch without Redis there is one line in the
// log, at its begin.
func (b *Board) run(ctx context.Context) {
	pause, said := b.timing.pauseMin, false
	for {
		began := time.Now()
		err := b.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if b.leave() {
			said = false
		}
		if time.Since(began) > b.timing.pauseMax {
			pause = b.timing.pauseMin // it was no flapping
		}
		if !said {
			said = true
			b.o.Log.Warn("redis is away; this host goes on alone", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, b.timing.pauseMax)
	}
}

// leave tells whether the board had joined.
func (b *Board) leave() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.joined
	b.joined, b.hosts = false, 0
	return was
}

// session is one stretch of being joined, with the way there. It always ends with an error.
func (b *Board) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	subscription := b.o.Redis.Subscribe(ctx, b.key("notes"))
	defer subscription.Close()
	// The first answer says that everything published from now on arrives.
	if _, err := subscription.ReceiveTimeout(ctx, answerPatience); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	if err := b.join(ctx); err != nil {
		return err
	}
	return b.follow(ctx, subscription)
}

// catchUp says all that is known here and learns what is newer there.
func (b *Board) catchUp(ctx context.Context) error {
	b.mu.Lock()
	for name := range b.newest {
		b.unsent[name] = true
	}
	b.mu.Unlock()
	if err := b.flush(ctx); err != nil {
		return err
	}
	var cursor uint64
	for read := 0; read <= 2*breakersMax; {
		pairs, next, err := b.o.Redis.HScan(ctx, b.key("notes"), cursor, "", scanCount).Result()
		if err != nil {
			return fmt.Errorf("read the notes: %w", err)
		}
		for pair := range slices.Chunk(pairs, 2) {
			b.accept(pair[len(pair)-1])
		}
		if cursor = next; cursor == 0 {
			break
		}
		read += len(pairs)
	}
	return nil
}

// flush says what is not known to be in Redis.
func (b *Board) flush(ctx context.Context) error {
	b.mu.Lock()
	var due []breaker.Note
	for name := range b.unsent {
		due = append(due, b.newest[name])
	}
	b.mu.Unlock()
	for _, n := range due {
		if err := b.send(ctx, n); err != nil {
			return fmt.Errorf("publish again: %w", err)
		}
	}
	return nil
}

// join counts this host in and ends the time alone. What was published while catching up goes out
// with the next beat, which is asked for at once.
func (b *Board) join(ctx context.Context) error {
	if err := b.beat(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	b.joined = true
	hosts := b.hosts
	b.mu.Unlock()
	signal(b.kick)
	b.o.Log.Info("hosts share their breakers through redis", "host", b.o.Host, "hosts", hosts)
	return nil
}

// beat is a sign of life.
func (b *Board) beat(ctx context.Context) error {
	hosts, err := beatScript.Run(ctx, b.o.Redis, []string{b.key("hosts"), b.key("notes")},
		b.o.Host, b.timing.presence.Milliseconds(), hashSpan.Milliseconds()).Int()
	if err != nil {
		return fmt.Errorf("sign of life: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts = hosts
	return nil
}

// follow takes what others publish and looks after the connections.
func (b *Board) follow(ctx context.Context, subscription *redis.PubSub) error {
	messages, failed := make(chan any, messagesMax), make(chan error, 1)
	// Ends with the subscription, which the session closes.
	go func() {
		for {
			message, err := subscription.Receive(ctx)
			if err != nil {
				failed <- err
				return
			}
			select {
			case messages <- message:
			case <-ctx.Done():
				return
			}
		}
	}()
	ticker := time.NewTicker(b.timing.beat)
	defer ticker.Stop()
	var asked time.Time // when the subscription was asked for an answer that did not come yet
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return fmt.Errorf("subscription: %w", err)
		case message := <-messages:
			asked = time.Time{}
			if m, ok := message.(*redis.Message); ok {
				b.accept(m.Payload)
			}
			continue
		case <-ticker.C:
		case <-b.kick:
		}
		if err := errors.Join(b.beat(ctx), b.flush(ctx)); err != nil {
			return err
		}
		if asked.IsZero() {
			asked = time.Now()
			if err := subscription.Ping(ctx); err != nil {
				return fmt.Errorf("subscription: %w", err)
			}
		} else if time.Since(asked) > answerPatience {
			return errSilent
		}
	}
}
