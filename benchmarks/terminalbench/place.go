package terminalbench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// clean makes a directory of the sandbox empty.
func clean(ctx context.Context, box sandbox.Sandbox, dir string, mode fs.FileMode) error {
	if c, ok := box.(sandbox.Cleaner); ok {
		if err := c.Clean(ctx, dir, mode); !errors.Is(err, sandbox.ErrUnsupported) {
			return err
		}
	}
	// Without help of the backend the sandbox's own programs have to do.
	r, err := box.Exec(ctx, sandbox.Command{Args: []string{"rm", "-rf", dir}, Dir: "/", Timeout: time.Minute})
	if err != nil {
		return err
	}
	if r.ExitCode != 0 {
		return fmt.Errorf("remove %s: exit code %d: %s: %w", dir, r.ExitCode, r.String(), permissionOf(r))
	}
	pipe, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: int64(mode)})
		_ = w.CloseWithError(errors.Join(err, tw.Close())) // nil means end of file
	}()
	err = box.Upload(ctx, pipe, "/")
	_ = pipe.Close() // ends the writer when the sandbox did not read to the end
	return err
}

func permissionOf(r sandbox.Result) error {
	if strings.Contains(strings.ToLower(r.String()), "permission denied") {
		return fs.ErrPermission
	}
	return errors.New("the sandbox's rm failed")
}

func isPermission(err error) bool {
	return errors.Is(err, fs.ErrPermission) || err != nil && strings.Contains(err.Error(), "permission denied")
}

// uploadFolder copies a folder of this machine into a directory of the sandbox. Files
// get modes of their own accord: readable by everybody, scripts executable.
func uploadFolder(ctx context.Context, box sandbox.Sandbox, folder, dir string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := packFolder(ctx, w, folder)
		_ = w.CloseWithError(err) // nil means end of file
		packed <- err
	}()
	err := box.Upload(ctx, r, dir)
	_ = r.CloseWithError(errStopped)
	if own := <-packed; own != nil && !errors.Is(own, errStopped) {
		return own
	}
	return err
}

// errBadFolder is wrapped by what a task's folder can't hold.
var errBadFolder = errors.New("unusable folder")

var errStopped = errors.New("the sandbox stopped reading")

// packFolder writes a folder as a tar stream with names relative to it.
func packFolder(ctx context.Context, w io.Writer, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	tw := tar.NewWriter(w)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil || name == "." {
			return err
		}
		return packEntry(tw, root, name, d)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func packEntry(tw *tar.Writer, root *os.Root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: 0o644, ModTime: info.ModTime().Truncate(time.Second)}
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
	case mode&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err != nil {
			return err
		}
	case mode.IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		if mode&0o111 != 0 || path.Ext(name) == ".sh" {
			h.Mode = 0o755
		}
	default:
		return fmt.Errorf("%w: %s is neither a file, a directory nor a link", errBadFolder, name)
	}
	if err := tw.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(tw, io.LimitReader(f, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s shrank while it was being read", name)
	}
	return err
}

// writeFile puts a file into the sandbox.
func writeFile(ctx context.Context, box sandbox.Sandbox, name string, content []byte) error {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(name), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = tw.Write(content)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		return err
	}
	return box.Upload(ctx, &b, path.Dir(name))
}
