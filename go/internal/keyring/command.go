package keyring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command prints a secret on its standard output.
type Command struct {
	Args    []string // the program and its arguments; no shell
	Every   time.Duration
	Timeout time.Duration
}

// again is how long after a run the next one comes.
func (c *Command) again(err error) time.Duration {
	if err != nil {
		return min(c.Every, commandAgain)
	}
	return c.Every
}

// result is what became of a command.
type result struct {
	text  []byte
	err   error
	known bool // not run: the secret is known
}

// ended is a command of a slot that has ended.
type ended struct {
	slot *slot
	result
}

// Run runs the command and gives what it printed, without the line end behind it. What it wrote to
// its standard error goes to log, without whatever of it is in its output. The whole group of
// processes is killed when the time is over, and what is left of it when the command has ended.
func (c *Command) Run(ctx context.Context, log *slog.Logger) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = reapGrace
	output := bounded{text: make([]byte, 0, secretBytesMax+1)}
	complaint := bounded{text: make([]byte, 0, complaintMax)}
	cmd.Stdout, cmd.Stderr = &output, &complaint
	err := cmd.Run()
	if cmd.Process != nil {
		// Those that it left behind; most often there are none, and no group any more.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if said := unsaid(complaint.text, output.text); said != "" {
		log.Warn("a command that gives a secret wrote to its standard error",
			"program", c.Args[0], "stderr", said)
	}
	text := bytes.TrimSuffix(bytes.TrimSuffix(output.text, []byte("\n")), []byte("\r"))
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		err = fmt.Errorf("the command %s did not end within %v", c.Args[0], c.Timeout)
	case errors.Is(err, exec.ErrWaitDelay):
		err = fmt.Errorf("a child of the command %s kept its output open", c.Args[0])
	case err != nil:
		// Of the error only what the system says: the arguments may be secret.
		var ending *exec.ExitError
		if errors.As(err, &ending) {
			err = fmt.Errorf("the command %s ended with %v", c.Args[0], ending.ProcessState)
		} else {
			if inner := errors.Unwrap(err); inner != nil {
				err = inner
			}
			err = fmt.Errorf("the command %s cannot be run: %w", c.Args[0], err)
		}
	case len(bytes.TrimSpace(text)) == 0:
		err = fmt.Errorf("the command %s printed nothing", c.Args[0])
	case len(text) > secretBytesMax:
		err = fmt.Errorf("the command %s printed more than %d bytes", c.Args[0], secretBytesMax)
	}
	if err != nil {
		clear(output.text)
		return nil, err
	}
	return text, nil
}

// bounded keeps of what is written to it as much as it has room for.
type bounded struct{ text []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), cap(b.text)-len(b.text))]...)
	return len(p), nil
}

// unsaid is a text without what a secret consists of: the whole, its lines, and the strings in it
// where it is JSON.
func unsaid(text, secret []byte) string {
	const shortest = 4 // what is shorter is hardly one, and tears the text apart
	parts := strings.FieldsFunc(string(secret), func(c rune) bool { return c == '\n' || c == '\r' })
	var tree any
	if json.Unmarshal(secret, &tree) == nil {
		parts = append(parts, leaves(tree)...)
	}
	said := strings.TrimSpace(string(text))
	for _, part := range parts {
		if part = strings.TrimSpace(part); len(part) >= shortest {
			said = strings.ReplaceAll(said, part, "[secret]")
		}
	}
	return said
}

// leaves are the strings in a JSON value, but for the names of members.
func leaves(tree any) (list []string) {
	switch v := tree.(type) {
	case string:
		list = append(list, v)
	case []any:
		for _, item := range v {
			list = append(list, leaves(item)...)
		}
	case map[string]any:
		for _, item := range v {
			list = append(list, leaves(item)...)
		}
	}
	return list
}

// runAll runs the commands of a config, a few at once, where their secrets are to be fresh or are
// not known.
func (r *Ring) runAll(ctx context.Context, wanted []Wanted, fresh bool) map[*Secret]result {
	results := map[*Secret]result{}
	var mu sync.Mutex
	var running sync.WaitGroup
	places := make(chan struct{}, commandsMax)
	for i := range wanted {
		for j := range wanted[i].Secrets {
			want := &wanted[i].Secrets[j]
			if want.Command == nil {
				continue
			}
			r.mu.Lock()
			known := !fresh && r.inForce(wanted[i].Name, want, j) != nil
			r.mu.Unlock()
			if known {
				mu.Lock()
				results[want] = result{known: true}
				mu.Unlock()
				continue
			}
			places <- struct{}{}
			running.Go(func() {
				text, err := want.Command.Run(ctx, r.o.Log)
				mu.Lock()
				results[want] = result{text: text, err: err}
				mu.Unlock()
				<-places
			})
		}
	}
	running.Wait()
	return results
}
