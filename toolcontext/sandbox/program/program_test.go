package program_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// image returns the headers of a program for Linux with one segment.
func image(t testing.TB, kind elf.Type, machine elf.Machine, segment elf.ProgType) []byte {
	t.Helper()
	h := elf.Header64{Type: uint16(kind), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, h))
	require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(segment)}))
	return b.Bytes()
}

func TestOnlyStaticProgramsForLinuxCanServe(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		arch    string
		err     string
	}{
		"a static one":       {image(t, elf.ET_EXEC, elf.EM_X86_64, elf.PT_LOAD), "amd64", ""},
		"another machine's":  {image(t, elf.ET_DYN, elf.EM_AARCH64, elf.PT_LOAD), "arm64", ""},
		"an unknown machine": {image(t, elf.ET_EXEC, elf.EM_68K, elf.PT_LOAD), "", "EM_68K"},
		"a dynamic one":      {image(t, elf.ET_DYN, elf.EM_X86_64, elf.PT_INTERP), "", "not static"},
		"an object file":     {image(t, elf.ET_REL, elf.EM_X86_64, elf.PT_LOAD), "", "part of one"},
		"a script":           {[]byte("#!/bin/sh\n"), "", "no program for Linux"},
		"nothing":            {nil, "", "no program for Linux"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p")
			require.NoError(t, os.WriteFile(path, c.content, 0o700))
			link := path + "-link"
			require.NoError(t, os.Symlink(path, link))
			p, err := program.Find(link)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, err, link)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.arch, p.Arch)
			require.EqualValues(t, len(c.content), p.Size)
			require.Equal(t, "p", filepath.Base(p.Path))
			sum, err := p.Digest()
			require.NoError(t, err)
			require.Len(t, sum, 64)
		})
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := program.Find(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path)
	_, err = program.Read(t.TempDir())
	require.ErrorContains(t, err, "no file")
}

func TestMachinesAreTranslated(t *testing.T) {
	for machine, arch := range map[string]string{"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm", "s390x": "s390x", "vax": ""} {
		require.Equal(t, arch, program.ArchOf(machine), machine)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(image(f, elf.ET_EXEC, elf.EM_X86_64, elf.PT_LOAD))
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "p")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		p, err := program.Read(path)
		require.Equal(t, err == nil, p.Arch != "")
	})
}
