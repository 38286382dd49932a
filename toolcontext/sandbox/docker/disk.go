package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// overlay is the storage driver whose layers can be covered.
const overlay = "overlay2"

// errNotCovered says that the engine does not use the file system that was mounted over a
// layer. It is mounted for no other container.
var errNotCovered = errors.New("the engine does not see what this program mounts")

// coverLayer gives a container that has not started a file system of its own for what it
// writes, and returns the directory of its layer; "" where that can't be done, and the
// server in it watches.
func (p *Provider) coverLayer(ctx context.Context, id string, pl plan) string {
	if pl.Disk > 0 || pl.FileSize <= 0 || p.whyNoDisks() != "" {
		return ""
	}
	layer, err := p.engine.layer(ctx, id)
	if err == nil {
		err = p.disks.cover(ctx, layer, pl.FileSize)
	}
	if err != nil {
		p.forgoDisks(err.Error())
		return ""
	}
	return layer
}

// whyNoDisks says why containers get no file systems of their own, "" where they do.
func (p *Provider) whyNoDisks() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noDisks == "" {
		p.noDisks = p.config.whyNoDisks(p.local, p.engine.info.Driver, &p.disks)
	}
	return p.noDisks
}

func (c Config) whyNoDisks(local bool, driver string, disks *diskImages) string {
	switch {
	case c.DiskWatch:
		return "env.disk_bound is watch"
	case c.PlainExec:
		return "there is no server in containers that could check them"
	case !local:
		return "the engine is on another machine"
	case driver != overlay:
		return "the engine's storage driver is " + driver + ", not " + overlay
	}
	if err := disks.missing(); err != nil {
		return err.Error()
	}
	return ""
}

// forgoDisks makes containers without file systems of their own from now on.
func (p *Provider) forgoDisks(why string) {
	p.mu.Lock()
	p.noDisks = why
	p.mu.Unlock()
	p.warnOnce(fmt.Sprintf("containers get no file system of their own (%s): the server in them watches what they write; env.disk_bound watch does so without a word", why))
}

// looser is the limit of the watch where a file system bounds what is written: it only
// counts if that is not in use after all.
func looser(limit int64) int64 { return limit + limit/4 + 256<<20 }

// checkLayer makes sure that a container with a file system of its own writes to it.
func (p *Provider) checkLayer(s *box, limit int64) error {
	srv, ok := s.driver.(*server)
	if s.layer == "" || !ok {
		return nil
	}
	if total := srv.current().Server().RootBytes; total >= limit && total <= imageSize(limit) {
		return nil
	}
	_ = srv.Close(context.Background()) // the container is removed
	_ = uncover(s.layer)
	p.forgoDisks(errNotCovered.Error())
	return errNotCovered
}

// layer returns the directory that holds the writable layer of a container.
func (e *engine) layer(ctx context.Context, id string) (string, error) {
	found, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return "", translate(err)
	}
	if found.ContainerJSONBase == nil || found.GraphDriver.Name != overlay || filepath.Base(found.GraphDriver.Data["UpperDir"]) != "diff" {
		return "", fmt.Errorf("the engine does not say where it keeps the layer of container %s", id)
	}
	return filepath.Dir(found.GraphDriver.Data["UpperDir"]), nil
}

// diskSpare is kept back for those who come after the agent, in a file that the container
// does not see.
const diskSpare = 256 << 20

// imageSize is the size of a file system in which limit bytes have room beside what it
// needs itself and the spare.
func imageSize(limit int64) int64 {
	const block = 1 << 20
	size := limit + diskSpare
	size += size/11 + 16<<20 // inodes take a sixteenth, maps and the like a hundredth
	return (size + block - 1) / block * block
}
