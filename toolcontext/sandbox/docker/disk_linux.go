package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A container's writable layer can be a file system of its own: an ext4 in a file without
// a name, on a loop device, mounted over the directory in which the engine keeps the layer.
// The kernel then bounds what is written, however it is written. All of it goes when the
// engine unmounts the directory, which it does before it removes a container.

const (
	spareFile = "hermes-env-spare"
	makeLimit = 30 * time.Second
)

// diskImages makes such file systems. Its zero value is ready.
type diskImages struct {
	mu    sync.Mutex
	empty map[int64][]extent // empty file systems by size: the parts of the file that are no hole
}

// extent is a part of a file.
type extent struct {
	at   int64
	data []byte
}

// missing says why no such file system can be made here, nil where it can.
func (d *diskImages) missing() error {
	if os.Geteuid() != 0 {
		return errors.New("this program is not root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		return fmt.Errorf("%w; install e2fsprogs", err)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return err
	}
	return nil
}

// cover mounts a file system with room for limit bytes over the directory of a layer that
// is not in use, with what the layer has already.
func (d *diskImages) cover(ctx context.Context, layer string, limit int64) (err error) {
	for _, name := range []string{"link", "lower", "diff", "work"} {
		if _, err := os.Lstat(filepath.Join(layer, name)); err != nil {
			return fmt.Errorf("the engine keeps the layer in another way: %w", err)
		}
	}
	size := imageSize(limit)
	empty, err := d.format(ctx, filepath.Dir(layer), size)
	if err != nil {
		return fmt.Errorf("make a file system: %w", err)
	}
	image, err := unnamedFile(filepath.Dir(layer))
	if err != nil {
		return err
	}
	defer image.Close()
	if err := image.Truncate(size); err != nil {
		return err
	}
	for _, part := range empty {
		if _, err := image.WriteAt(part.data, part.at); err != nil {
			return fmt.Errorf("write a file system: %w", err)
		}
	}
	device, err := attachLoop(image)
	if err != nil {
		return fmt.Errorf("attach a loop device: %w", err)
	}
	defer device.Close() // the mount holds it; without one it is free again
	before, err := os.OpenRoot(layer)
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Mount(device.Name(), layer, "ext4", unix.MS_NOATIME, "discard"); err != nil {
		return fmt.Errorf("mount the file system: %w", err)
	}
	if err := d.fill(before, layer); err != nil {
		return errors.Join(err, unix.Unmount(layer, unix.MNT_DETACH))
	}
	return nil
}

// format returns an empty file system.
func (d *diskImages) format(ctx context.Context, dir string, size int64) ([]extent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if parts, ok := d.empty[size]; ok {
		return parts, nil
	}
	file, err := unnamedFile(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, makeLimit)
	defer cancel()
	// No journal: what a crash leaves of it is of no use.
	cmd := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-b", "4096", "-i", "4096", "-m", "0", "-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{file}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, strings.TrimSpace(string(out)))
	}
	parts, err := readExtents(file, size)
	if err != nil {
		return nil, err
	}
	if d.empty == nil {
		d.empty = map[int64][]extent{}
	}
	d.empty[size] = parts
	return parts, nil
}

// maxExtents bounds what an empty file system may consist of.
const maxExtents = 64 << 20

// readExtents reads what of a file is no hole.
func readExtents(file *os.File, size int64) ([]extent, error) {
	var parts []extent
	total := int64(0)
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, err
		}
		end, err := unix.Seek(int(file.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		if total += end - start; total > maxExtents {
			return nil, fmt.Errorf("an empty file system of %d bytes has more than %d bytes", size, maxExtents)
		}
		data := make([]byte, end-start)
		if _, err := file.ReadAt(data, start); err != nil {
			return nil, err
		}
		parts, at = append(parts, extent{start, data}), end
	}
	return parts, nil
}

// unnamedFile makes a file that goes with its last user.
func unnamedFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a file in %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), "disk image"), nil
}

// attachLoop makes a block device of a file, until nothing uses the device any more.
func attachLoop(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 { // another program may take the same
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: 4096}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if errors.Is(err, unix.EINVAL) { // a disk below that can't do without its cache
			config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
			err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		}
		if err == nil {
			return device, nil
		}
		_ = device.Close() // nothing was done with it
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, errors.New("every loop device is taken by others")
}

// fill puts what a layer had into the file system that covers it, and the spare.
func (d *diskImages) fill(before *os.Root, layer string) error {
	after, err := os.OpenRoot(layer)
	if err != nil {
		return err
	}
	defer after.Close()
	if err := after.Remove("lost+found"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = fs.WalkDir(before.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return copyEntry(before, after, name)
	})
	if err != nil {
		return fmt.Errorf("copy the layer: %w", err)
	}
	spare, err := after.OpenFile(spareFile, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer spare.Close()
	if err := unix.Fallocate(int(spare.Fd()), 0, 0, diskSpare); err != nil {
		return fmt.Errorf("keep space back: %w", err)
	}
	return nil
}

// copyEntry copies a directory, without what is in it, or a file or link, with owner, mode
// and attributes. A layer that was not in use has nothing else.
func copyEntry(from, to *os.Root, name string) error {
	info, err := from.Lstat(name)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case name == ".":
	case mode.IsDir():
		if err := to.Mkdir(name, 0o700); err != nil {
			return err
		}
	case mode&fs.ModeSymlink != 0:
		target, err := from.Readlink(name)
		if err == nil {
			err = to.Symlink(target, name)
		}
		if err != nil {
			return err
		}
	case mode.IsRegular():
		if err := copyFile(from, to, name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither a file, a directory nor a link", name)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is not known", name)
	}
	if err := to.Lchown(name, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if err := to.Chmod(name, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	if err := copyAttributes(from, to, name); err != nil {
		return err
	}
	return to.Chtimes(name, info.ModTime(), info.ModTime())
}

func copyFile(from, to *os.Root, name string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// copyAttributes copies extended attributes; the engine's own are among them.
func copyAttributes(from, to *os.Root, name string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(in.Fd()), list)
	if err != nil || n == 0 {
		return err
	}
	out, err := to.Open(name)
	if err != nil {
		return err
	}
	defer out.Close()
	value := make([]byte, 64<<10)
	for attribute := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		n, err := unix.Fgetxattr(int(in.Fd()), attribute, value)
		if err == nil {
			err = unix.Fsetxattr(int(out.Fd()), attribute, value[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("copy the attribute %s of %s: %w", attribute, name, err)
		}
	}
	return nil
}

// uncover undoes cover, for a container that can't be used with it.
func uncover(layer string) error { return unix.Unmount(layer, unix.MNT_DETACH) }

// releaseSpare lets those who come after the agent write a little, though it has used up
// its space.
func releaseSpare(layer string) { _ = os.Remove(filepath.Join(layer, spareFile)) }
