package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
// It is the harness's own program: nothing in the container has a say in it. Its commands
// have the capability inside.Untraceable.
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
	reserve := slices.DeleteFunc(slices.Clone(s.reserve), func(name string) bool { return name == inside.Untraceable })
	request := s.provider.serverExec(reserve, user, s.keepHome, nil)
	request.Dir = "/" // the server goes on from there: the agent can have removed its directory
	if s.uploaded {
		if err := s.ownProgram(ctx, &request); err != nil {
			return nil, s.blame(ctx, fmt.Errorf("start a server for user %q: %w", user, err))
		}
	}
	id, streams, err := s.provider.engine.exec(ctx, s.container, request)
	if err != nil {
		return nil, s.blame(ctx, fmt.Errorf("start a server for user %q: %w", user, err))
	}
	at := newStream(streams)
	at.exec = id
	ending := func() ending { return s.provider.ending(s.container, at, nil) }
	info := s.info
	info.Home = ""
	client, err := inside.Dial(at, inside.Options{
		Info: info, Dir: s.info.Dir, Anywhere: true, HandshakeWait: greetLimit,
		Why: func() string { return ending().words }, EndedInside: func() bool { return ending().inside },
	})
	if err != nil {
		// A server that was killed says nothing; one that can't serve says why.
		if last := ending(); last.inside && strings.TrimSpace(at.said.Output().String()) == "" {
			return nil, fmt.Errorf("%w: %s: %w", sandbox.ErrEndedInside, last.words, err)
		}
		return nil, s.blame(ctx, fmt.Errorf("the server for user %q: %w", user, err))
	}
	return &door{Client: client}, nil
}

// ownProgram has an exec run the harness's own program in a container that it was copied
// into, where root can have put another in its place.
func (s *box) ownProgram(ctx context.Context, request *execRequest) error {
	if slices.Contains(s.reserve, "SYS_PTRACE") || s.provider.config.Capabilities.Has("SYS_PTRACE") {
		request.Args[0] = "/proc/1/exe" // the program that runs, whatever has its name now
		return nil
	}
	return s.provider.uploadBinary(ctx, s.container)
}

// blame gives an error its cause where what runs in the container has used up what the
// container may have.
func (s *box) blame(ctx context.Context, err error) error {
	used, statErr := s.provider.engine.use(context.WithoutCancel(ctx), s.container)
	if statErr != nil {
		return err
	}
	if why := used.exhausted(); why != "" {
		return fmt.Errorf("%w: %s: %w", sandbox.ErrEndedInside, why, err)
	}
	return err
}
