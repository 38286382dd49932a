// Package program finds the program that serves commands inside sandboxes: the
// harness's own static binary for Linux, or another that the user names.
//
// It reads the program's headers, to say before anything is started whether it can
// run on another machine or in any image. It never runs, copies or changes it.
package program

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Variable names the variable of the harness's environment with the path of a
// static hermes-env for Linux, for harnesses that can't serve themselves.
const Variable = "HERMES_ENV_SANDBOX_BINARY"

// Program is a static program for Linux.
type Program struct {
	Path string // absolute, without links
	Arch string // as Go names it
	Size int64  // bytes
}

// Find returns the program to serve inside sandboxes: the one configured, else this
// process's own. An error says why it can't serve and how to get one that can.
func Find(configured string) (Program, error) {
	if configured != "" {
		p, err := Read(configured)
		if err != nil {
			return Program{}, fmt.Errorf("use %s as the server inside sandboxes: %w", configured, err)
		}
		return p, nil
	}
	path, err := os.Executable()
	if err != nil {
		return Program{}, fmt.Errorf("find this program's file: %w", err)
	}
	p, err := Read(path)
	if err != nil {
		return Program{}, fmt.Errorf("this program can't serve inside sandboxes: %w; build one that can, with this command: %s", err, BuildCommand(""))
	}
	return p, nil
}

// BuildCommand is what a person types, in a checkout of the project, to get a program
// that can serve: it builds one and names it. arch is the machine's as Go names it;
// "" is this one's.
func BuildCommand(arch string) string {
	if arch == "" {
		arch = runtime.GOARCH
	}
	return fmt.Sprintf("CGO_ENABLED=0 GOOS=linux GOARCH=%s go build -o hermes-env-sandbox ./cmd/hermes-env && export %s=$PWD/hermes-env-sandbox", arch, Variable)
}

// Read checks that a file is a static program for Linux.
func Read(path string) (Program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Program{}, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return Program{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Program{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Program{}, err
	}
	if !info.Mode().IsRegular() {
		return Program{}, fmt.Errorf("%s is no file", path)
	}
	arch, err := inspect(f)
	if err != nil {
		return Program{}, fmt.Errorf("%s %w", path, err)
	}
	return Program{Path: path, Arch: arch, Size: info.Size()}, nil
}

// machineArch names an architecture as Go does; "" where it is not known.
func machineArch(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_386:
		return "386"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_RISCV:
		return "riscv64"
	case elf.EM_PPC64:
		return "ppc64le"
	case elf.EM_S390:
		return "s390x"
	}
	return ""
}

// inspect returns the architecture of a program, or what is wrong with it.
func inspect(r io.ReaderAt) (string, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return "", errors.New("is no program for Linux")
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return "", errors.New("is no program but a part of one")
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("is not static, so it may not run everywhere")
		}
	}
	arch := machineArch(f.Machine)
	if arch == "" {
		return "", fmt.Errorf("is for the machine %v, which is not known here", f.Machine)
	}
	return arch, nil
}

// Digest returns the SHA-256 of the program's content in hexadecimal.
func (p Program) Digest() (string, error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", p.Path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// ArchOf translates a machine's name as uname -m prints it to Go's; "" where it is
// not known.
func ArchOf(machine string) string {
	switch machine {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	case "i386", "i486", "i586", "i686":
		return "386"
	case "armv5l", "armv6l", "armv7l", "armv8l":
		return "arm"
	case "riscv64", "ppc64le", "s390x":
		return machine
	}
	return ""
}
