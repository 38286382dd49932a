package docker

import (
	"context"
	"fmt"
	"sync"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

var (
	_ sandbox.UserSwitcher = (*Sandbox)(nil)
	_ sandbox.Cleaner      = (*Sandbox)(nil)
)

// door is a second server in a container, for another user.
type door struct {
	*inside.Client
	closing sync.Once
	err     error
}

// Close ends what was started through the door.
func (d *door) Close(ctx context.Context) error {
	d.closing.Do(func() { d.err = d.Client.Close(context.WithoutCancel(ctx)) })
	return d.err
}

// As starts another server in the container, as another user; see sandbox.UserSwitcher.
// It is the harness's own program: nothing in the container has a say in it.
func (s *box) As(ctx context.Context, user string) (sandbox.Sandbox, error) {
	if s.provider.config.PlainExec {
		return nil, fmt.Errorf("enter as another user without the server in the container: %w", sandbox.ErrUnsupported)
	}
	if user == "" {
		var err error
		if user, err = s.provider.engine.imageUser(ctx, s.container); err != nil {
			return nil, fmt.Errorf("ask for the image's user: %w", err)
		}
		if user == "" {
			user = "0"
		}
	}
	_, streams, err := s.provider.engine.exec(ctx, s.container, execRequest{Args: []string{binaryPath, inside.Word}, User: user, Dir: s.info.Dir})
	if err != nil {
		return nil, fmt.Errorf("start a server for user %q: %w", user, err)
	}
	at := newStream(streams)
	info := s.info
	info.Home = ""
	client, err := inside.Dial(at, inside.Options{
		Info: info, Dir: s.info.Dir, HandshakeWait: greetLimit,
		Why: func() string { return s.provider.fate(s.container, at) },
	})
	if err != nil {
		return nil, fmt.Errorf("the server for user %q: %w", user, err)
	}
	return &door{Client: client}, nil
}
