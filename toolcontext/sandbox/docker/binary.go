package docker

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// serverBinary is the program that serves inside containers.
type serverBinary struct {
	path string
	arch string // as Go names it
}

// machines are the architectures the server can be told for.
var machines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm",
	elf.EM_RISCV: "riscv64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x",
}

// readBinary checks that a program can serve in any container: a static one for Linux.
func readBinary(path string) (serverBinary, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return serverBinary{}, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return serverBinary{}, err
	}
	f, err := elf.Open(path)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) {
			return serverBinary{}, fmt.Errorf("%s is no program for Linux", path)
		}
		return serverBinary{}, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return serverBinary{}, fmt.Errorf("%s is not static, so it may not run in every image", path)
		}
	}
	arch, ok := machines[f.Machine]
	if !ok {
		return serverBinary{}, fmt.Errorf("%s is for the machine %v, which is not known here", path, f.Machine)
	}
	return serverBinary{path: path, arch: arch}, nil
}

// findBinary returns the program to serve in containers of an engine: the one
// configured, which has to fit, or this process's own, where that fits. The reason
// says why there is none.
func findBinary(configured string, info engineInfo) (found serverBinary, reason error) {
	path := configured
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return serverBinary{}, fmt.Errorf("find this program's file: %w", err)
		}
	}
	b, err := readBinary(path)
	if err != nil {
		return serverBinary{}, err
	}
	if b.arch != info.Arch {
		return serverBinary{}, fmt.Errorf("%s is for %s and the engine runs %s", path, b.arch, info.Arch)
	}
	return b, nil
}
