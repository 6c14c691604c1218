package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/go/internal/config"
	pb "sluice/proto/sluice/v1"
)

const (
	adminVariable = "SLUICE_ADMIN"
	tokenVariable = "SLUICE_ADMIN_TOKEN"

	dialMax = 5 * time.Second
	callMax = 10 * time.Second // of calls that change or read little
	// messageBytesMax is the largest body that a config allows, and its headers.
	messageBytesMax = 1<<30 + 1<<20
)

// daemonFlags say where the daemon is.
type daemonFlags struct{ admin, config string }

func (f *daemonFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.admin, "admin", "",
		"where the daemon is, `unix:PATH|HOST:PORT`; also "+adminVariable)
	flags.StringVar(&f.config, "config", "", "the daemon's config `FILE`, to find it by")
}

// remote is a connection to the admin API.
type remote struct {
	pb.AdminClient
	address string
	// refused is why the last dial failed, which gRPC would wrap beyond recognition.
	refused atomic.Pointer[error]
}

// call connects, runs do, and explains what went wrong.
func (f *daemonFlags) call(cmd *cobra.Command, do func(context.Context, *remote) error) error {
	address, err := f.address()
	if err != nil {
		return err
	}
	d := &remote{address: address}
	network, target := "tcp", address
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		network, target = "unix", path
	}
	conn, err := grpc.NewClient("passthrough:"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("sluice"),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialMax)
			defer cancel()
			conn, err := new(net.Dialer).DialContext(ctx, network, target)
			if err != nil {
				d.refused.Store(&err)
			}
			return conn, err
		}))
	if err != nil {
		return usagef("%s is no address of a daemon: %v", address, err)
	}
	defer func() { _ = conn.Close() }() // every call has ended
	d.AdminClient = pb.NewAdminClient(conn)
	ctx := cmd.Context()
	// The kernel proves who calls over a Unix socket.
	if token := os.Getenv(tokenVariable); token != "" && network == "tcp" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return d.explain(do(ctx, d))
}

// short bounds a call that has no reason to take long.
func short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callMax)
}

// explain says whose fault a failed call is, and how to mend it.
func (d *remote) explain(err error) error {
	dial := d.refused.Load()
	switch status.Code(err) {
	case codes.Unavailable:
	case codes.Unauthenticated:
		return fmt.Errorf("the daemon at %s wants its token: set %s to what admin.token names",
			d.address, tokenVariable)
	case codes.DeadlineExceeded:
		return fmt.Errorf("the daemon at %s does not answer: it hangs or its host is overloaded",
			d.address)
	default:
		return err
	}
	switch {
	case dial == nil:
		return fmt.Errorf("the daemon at %s ended the call: %s", d.address, errorText(err))
	case errors.Is(*dial, fs.ErrNotExist), errors.Is(*dial, syscall.ECONNREFUSED):
		return fmt.Errorf("no daemon listens on %s: start one with `sluice run`, or say where it is "+
			"with --admin, %s or --config", d.address, adminVariable)
	case errors.Is(*dial, fs.ErrPermission):
		return fmt.Errorf("%s is not yours to use: call as the daemon's user or as root", d.address)
	}
	return fmt.Errorf("the daemon at %s cannot be reached: %w", d.address, *dial)
}

// address finds the daemon: --admin, the config's socket, the environment, the default data_dir.
func (f *daemonFlags) address() (string, error) {
	switch {
	case f.admin != "":
		return checkAddress("--admin", f.admin)
	case f.config != "":
		return configuredAddress(f.config)
	case os.Getenv(adminVariable) != "":
		return checkAddress(adminVariable, os.Getenv(adminVariable))
	}
	c, err := config.Default(config.Options{})
	if err != nil {
		return "", err
	}
	return "unix:" + c.Admin.Socket, nil
}

func checkAddress(origin, text string) (string, error) {
	if path, isUnix := strings.CutPrefix(text, "unix:"); isUnix {
		if path = strings.TrimPrefix(path, "//"); path == "" {
			return "", usagef("%s: unix: is followed by the socket's path", origin)
		}
		return "unix:" + path, nil
	}
	if strings.HasPrefix(text, "/") {
		return "", usagef("%s: %q is a path; write unix:%s", origin, text, text)
	}
	if _, _, err := net.SplitHostPort(text); err != nil {
		return "", usagef("%s: %q is neither unix:PATH nor HOST:PORT", origin, text)
	}
	return text, nil
}

func configuredAddress(path string) (string, error) {
	c, err := configPart(path, false)
	if err != nil {
		return "", err
	}
	return "unix:" + c.Admin.Socket, nil
}

// configPart reads no more of the config than where the daemon is, and what seals secrets if that
// is asked for: others of its secrets and certificates are often not there for the caller to
// read.
func configPart(path string, keys bool) (*config.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	var all struct {
		DataDir    yaml.Node `yaml:"data_dir"`
		SecretsKey yaml.Node `yaml:"secrets_key"`
		Admin      struct {
			Socket yaml.Node `yaml:"socket"`
		} `yaml:"admin"`
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, usagef("--config: %s cannot be read; see `sluice check %s`", path, path)
	}
	part := map[string]any{}
	if !all.DataDir.IsZero() {
		part["data_dir"] = &all.DataDir
	}
	if !all.Admin.Socket.IsZero() {
		part["admin"] = map[string]any{"socket": &all.Admin.Socket}
	}
	if keys && !all.SecretsKey.IsZero() {
		part["secrets_key"] = &all.SecretsKey
	}
	if text, err = yaml.Marshal(part); err != nil {
		return nil, usagef("--config: %s: %w", path, err)
	}
	c, err := config.Parse(path, text, config.Options{Dev: true})
	switch {
	case err != nil && keys:
		return nil, usage(err)
	case err != nil:
		return nil, usagef("--config: %s does not say where the daemon is; see `sluice check %s`",
			path, path)
	}
	return c, nil
}
