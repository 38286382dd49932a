package tools_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func TestReadFileShowsNumberedLines(t *testing.T) {
	r := newRollout(t, tools.Options{AllowRepeatedReads: true})
	for _, c := range []struct{ name, content, arguments, want string }{
		{"a file", "import os\n", `{"path":"f"}`,
			`{"content":"1|import os\n2|","total_lines":1,"file_size":10,"truncated":false,"is_binary":false,"is_image":false}`},
		{"no final newline", "a\nb", `{"path":"f"}`,
			`{"content":"1|a\n2|b","total_lines":1,"file_size":3,"truncated":false,"is_binary":false,"is_image":false}`},
		{"an empty file", "", `{"path":"f"}`,
			`{"content":"","total_lines":0,"file_size":0,"truncated":false,"is_binary":false,"is_image":false}`},
		{"a page", "a\nb\nc\nd\n", `{"path":"f","offset":2,"limit":2}`,
			`{"content":"2|b\n3|c\n4|","total_lines":4,"file_size":8,"truncated":true,"hint":"Use offset=4 to continue reading (showing lines 2-3 of 4)","is_binary":false,"is_image":false}`},
		{"the last page", "a\nb\nc", `{"path":"f","offset":"3"}`,
			`{"content":"3|c","total_lines":2,"file_size":5,"truncated":false,"is_binary":false,"is_image":false}`},
		{"past the end", "a\n", `{"path":"f","offset":9}`,
			`{"content":"","total_lines":1,"file_size":2,"truncated":false,"hint":"offset 9 is past the end of the file, which has 1 lines","is_binary":false,"is_image":false}`},
		{"values out of range are clamped", "a\nb\n", `{"path":"f","offset":-5,"limit":99999999999}`,
			`{"content":"1|a\n2|b\n3|","total_lines":2,"file_size":4,"truncated":false,"is_binary":false,"is_image":false}`},
		{"nonsense values are the defaults", "a\n", `{"path":"f","offset":"x","limit":[]}`,
			`{"content":"1|a\n2|","total_lines":1,"file_size":2,"truncated":false,"is_binary":false,"is_image":false}`},
		{"a NUL", "a\x00b", `{"path":"f"}`,
			`{"content":"","total_lines":0,"file_size":3,"truncated":false,"is_binary":true,"is_image":false,"error":"DIR/f is a binary file and can't be shown as text; inspect it with a program in the terminal"}`},
		{"no UTF-8", "caf\xe9\n", `{"path":"f"}`,
			`{"content":"","total_lines":1,"file_size":5,"truncated":false,"is_binary":true,"is_image":false,"error":"DIR/f is a binary file and can't be shown as text; inspect it with a program in the terminal"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.put("f", c.content)
			require.Equal(t, c.want, strings.ReplaceAll(r.call("read_file", c.arguments), r.box.Info().Dir, "DIR"))
		})
	}
}

func TestReadFilePagesAFileOfAnySize(t *testing.T) {
	r := newRollout(t, tools.Options{})
	pad := strings.Repeat("-", 90)
	var b strings.Builder
	for i := 1; b.Len() < 5<<20; i++ {
		fmt.Fprintf(&b, "line %d %s\n", i, pad)
	}
	r.put("big", b.String()+"last é")
	n := strings.Count(b.String(), "\n") + 1
	page := r.do("read_file", "path", "big", "offset", n-1, "limit", 5)
	require.Equal(t, fmt.Sprintf("%d|line %d %s\n%d|last é", n-1, n-1, pad, n), page.Get("content").String())
	page = r.do("read_file", "path", "big", "offset", 40_000, "limit", 1)
	require.Equal(t, "40000|line 40000 "+pad+"\n40001|", page.Get("content").String())
	require.True(t, page.Get("truncated").Bool())
}

func TestReadFileCutsLongLinesAndRefusesHugePages(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("wide", strings.Repeat("é", 3000)+"\nnext\n")
	require.Equal(t, "1|"+strings.Repeat("é", 2000)+"... [truncated]\n2|next\n3|", r.do("read_file", "path", "wide").Get("content").String())
	r.put("wider", strings.Repeat(strings.Repeat("z", 5<<20)+"\n", 2))
	require.Equal(t, "1|"+strings.Repeat("z", 2000)+"... [truncated]\n2|", r.do("read_file", "path", "wider", "limit", 1).Get("content").String())
	r.put("many", strings.Repeat(strings.Repeat("z", 300)+"\n", 400))
	refused := r.do("read_file", "path", "many")
	require.Contains(t, refused.Get("error").String(), "more than the 100000")
	require.EqualValues(t, 400, refused.Get("total_lines").Int())
	require.Equal(t, r.path("many"), refused.Get("path").String())
	require.False(t, refused.Get("content").Exists())
}

func TestReadFileExplainsWhatItCannotRead(t *testing.T) {
	r := newRollout(t, tools.Options{})
	require.NoError(t, syscall.Mkfifo(r.path("pipe"), 0o600))
	require.NoError(t, os.Symlink("nowhere", r.path("dangling")))
	for path, want := range map[string]string{
		r.box.Info().Dir:                "is a directory",
		"pipe":                          "is not a regular file",
		"/dev/zero":                     "is not a regular file",
		"dangling":                      "File not found",
		"absent":                        "File not found",
		"":                              "path is empty",
		"a\x00b":                        "NUL",
		"/" + strings.Repeat("x", 5000): "5001 bytes",
	} {
		require.Contains(t, r.do("read_file", "path", path).Get("error").String(), want)
	}
	require.Contains(t, r.do("read_file").Get("error").String(), "missing required argument: path")
	require.Contains(t, r.do("read_file", "path", 7).Get("error").String(), "expected string, got number")
	r.put("pic.png", "not really")
	require.True(t, r.do("read_file", "path", "pic.png").Get("is_image").Bool())
}

func TestReadFileSuggestsSimilarNames(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for _, n := range []string{"config.yaml", "config.yml", "konfig.yaml", "zzz", "README.md"} {
		r.put("d/"+n, "x\n")
	}
	found := r.do("read_file", "path", "d/config.yam")
	require.Contains(t, found.Get("error").String(), "File not found")
	require.JSONEq(t, fmt.Sprintf(`[%[1]q,%[2]q,%[3]q]`, r.path("d/config.yaml"), r.path("d/config.yml"), r.path("d/konfig.yaml")), found.Get("similar_files").Raw)
	require.False(t, r.do("read_file", "path", "nodir/x").Get("similar_files").Exists())
}

func TestReadFileFindsAFileWhoseNameDiffersInTypography(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("it’s – here.txt", "yes\n")
	require.Equal(t, "1|yes\n2|", r.do("read_file", "path", "it's - here.txt").Get("content").String())
}

func TestReadFileDecodesUTF16(t *testing.T) {
	r := newRollout(t, tools.Options{})
	raw := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune("héllo\nwörld\n")) {
		raw = append(raw, byte(u), byte(u>>8))
	}
	r.put("w.txt", string(raw))
	page := r.do("read_file", "path", "w.txt")
	require.Equal(t, "1|héllo\n2|wörld\n3|", page.Get("content").String())
	require.EqualValues(t, 2, page.Get("total_lines").Int())
}

func TestReadFileShowsNotebooksAsText(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("n.ipynb", `{"cells":[{"cell_type":"code","source":["x = 1\n","x"]}]}`)
	require.Equal(t, "1|[cell 1: code]\n2|x = 1\n3|", r.do("read_file", "path", "n.ipynb", "limit", 2).Get("content").String())
	r.put("broken.ipynb", "{oops\n")
	require.Equal(t, "1|{oops\n2|", r.do("read_file", "path", "broken.ipynb").Get("content").String())
	r.put("broken.docx", "PK\x03\x04\x00")
	require.True(t, r.do("read_file", "path", "broken.docx").Get("is_binary").Bool())
}

func TestReadFileAnswersRepeatedReadsShortly(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f", "one\n")
	require.Equal(t, "1|one\n2|", r.do("read_file", "path", "f").Get("content").String())
	again := r.do("read_file", "path", r.path("f"))
	require.Equal(t, "unchanged", again.Get("status").String())
	require.Equal(t, "true false", again.Get("dedup").Raw+" "+again.Get("content_returned").Raw)
	blocked := r.do("read_file", "path", "f")
	require.Contains(t, blocked.Get("error").String(), "BLOCKED")
	require.EqualValues(t, 3, blocked.Get("already_read").Int())
	require.Equal(t, "1|one\n2|", r.do("read_file", "path", "f", "limit", 5).Get("content").String(), "another page is another read")

	r.put("f", "two\n")
	require.Equal(t, "1|two\n2|", r.do("read_file", "path", "f").Get("content").String(), "a change within the same second is seen")
	r.do("write_file", "path", "f", "content", "two\n")
	require.Equal(t, "1|two\n2|", r.do("read_file", "path", "f").Get("content").String(), "a write forgets what was read")
}

func TestReadFileWarnsAndThenBlocksIdenticalReadsInARow(t *testing.T) {
	r := newRollout(t, tools.Options{})
	read := func(content string) (string, string) {
		r.put("f", content)
		result := r.do("read_file", "path", "f")
		return result.Get("_warning").String(), result.Get("error").String()
	}
	for i, want := range []struct{ warning, blocked bool }{{}, {}, {warning: true}, {blocked: true}} {
		warning, problem := read(fmt.Sprint(i))
		require.Equal(t, want.warning, warning != "", "read %d", i+1)
		require.Equal(t, want.blocked, strings.Contains(problem, "BLOCKED"), "read %d", i+1)
	}
	r.do("terminal", "command", "true")
	warning, problem := read("9")
	require.Empty(t, warning+problem, "any other tool ends the run")
}

func TestRepeatedReadsCanBeAllowed(t *testing.T) {
	r := newRollout(t, tools.Options{AllowRepeatedReads: true})
	r.put("f", "one\n")
	for range 6 {
		require.Equal(t, "1|one\n2|", r.do("read_file", "path", "f").Get("content").String())
	}
}

func TestWriteFileWritesExactlyWhatItIsGiven(t *testing.T) {
	r := newRollout(t, tools.Options{})
	for _, content := range []string{"", "x", "no newline\nat end", "quotes ' \" ` $HOME \\ %s\n", "\t\r\n é語🎉\n", strings.Repeat("0123456789abcdef\n", 40_000)} {
		result := r.do("write_file", "path", "sub dir/it's \"new\" $x.txt", "content", content)
		require.Equal(t, "", result.Get("error").String())
		require.EqualValues(t, len(content), result.Get("bytes_written").Int())
		require.True(t, result.Get("verified").Bool())
		require.Equal(t, content, r.get("sub dir/it's \"new\" $x.txt"))
		require.Equal(t, r.path("sub dir/it's \"new\" $x.txt"), result.Get("resolved_path").String())
	}
	left, err := filepath.Glob(r.path("*/.hermes-tmp*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWriteFileResultHasTheShapeModelsKnow(t *testing.T) {
	r := newRollout(t, tools.Options{})
	require.Equal(t, `{"bytes_written":12,"dirs_created":true,"verified":true,"resolved_path":"DIR/a/b/f","files_modified":["DIR/a/b/f"]}`,
		strings.ReplaceAll(r.call("write_file", `{"path":"a/b/f","content":"hello world\n"}`), r.box.Info().Dir, "DIR"))
	require.False(t, r.do("write_file", "path", "a/b/f", "content", "x").Get("dirs_created").Bool())
}

func TestWriteFileKeepsModeLinksLineEndsAndMark(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("script", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(r.path("script"), 0o750))
	require.NoError(t, os.MkdirAll(r.path("d"), 0o755))
	require.NoError(t, os.Symlink("../script", r.path("d/link")))
	result := r.do("write_file", "path", "d/link", "content", "#!/bin/sh\necho hi\n")
	require.Equal(t, r.path("script"), result.Get("resolved_path").String())
	require.Equal(t, "#!/bin/sh\necho hi\n", r.get("script"))
	info, err := os.Lstat(r.path("script"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o750), info.Mode())
	link, err := os.Readlink(r.path("d/link"))
	require.NoError(t, err)
	require.Equal(t, "../script", link)

	r.put("win.txt", "\ufeffone\r\ntwo\r\n")
	r.do("write_file", "path", "win.txt", "content", "three\nfour\n")
	require.Equal(t, "\ufeffthree\r\nfour\r\n", r.get("win.txt"))
	r.put("mixed.txt", "one\r\ntwo\n")
	r.do("write_file", "path", "mixed.txt", "content", "three\n")
	require.Equal(t, "three\n", r.get("mixed.txt"))
	r.do("write_file", "path", "new.txt", "content", "x")
	info, err = os.Stat(r.path("new.txt"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o044, "a new file has the umask's mode, not that of a private scratch file")
}

func TestWriteFileExplainsWhatItCannotWrite(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("file", "x")
	require.NoError(t, syscall.Mkfifo(r.path("pipe"), 0o600))
	require.NoError(t, os.Symlink("loop", r.path("loop")))
	require.NoError(t, os.Mkdir(r.path("dir"), 0o755))
	for path, want := range map[string]string{
		"dir":      "it is a directory",
		"pipe":     "not a regular file",
		"loop":     "too many levels of links",
		"file/sub": "cannot create the directory",
		"":         "path is empty",
		"/proc/x":  "Failed to write /proc/x",
	} {
		require.Contains(t, r.do("write_file", "path", path, "content", "y").Get("error").String(), want, path)
	}
	require.Contains(t, r.do("write_file", "path", "f").Get("error").String(), "missing required argument: content")
	require.Contains(t, r.do("write_file", "path", "f", "content", []int{1}).Get("error").String(), "expected string, got array")
	require.Contains(t, r.do("write_file", "content", "x").Get("error").String(), "missing required argument: path")
	require.Contains(t, r.do("write_file", "path", "f", "content", "1|a\n2|b\n3|").Get("error").String(), "line numbers")
	require.Equal(t, "", r.do("write_file", "path", "f", "content", "1|a\nb\nc\nd\n").Get("error").String())
	require.Equal(t, "x", r.get("file"))
}

func TestAnInterruptedWriteLeavesTheOldFile(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f", "old")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	result, err := r.registry.Call(ctx, r.state, "write_file", []byte(`{"path":"f","content":"new"}`))
	require.Equal(t, "old", r.get("f"))
	if err == nil {
		require.Contains(t, result, `"error"`)
	}
}

func TestFileToolsFollowTheTerminalsDirectory(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.do("terminal", "command", "mkdir -p x/y && cd x/y")
	require.Equal(t, r.path("x/y/f"), r.do("write_file", "path", "f", "content", "1\n").Get("resolved_path").String())
	r.do("terminal", "command", "cd ..")
	require.Equal(t, "1|1\n2|", r.do("read_file", "path", "y/f").Get("content").String())
	require.Equal(t, r.box.Info().Home+"/h", r.do("write_file", "path", "~/h", "content", "").Get("resolved_path").String())
	require.Equal(t, "f", r.do("search_files", "pattern", "f", "target", "files", "path", "./y").Get("files.0").String()[2:])
}

func TestNothingTheModelDefinesChangesWhatFileToolsDo(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.do("terminal", "command", `export PATH=/nowhere IFS=x CDPATH=/ ENV=/dev/null; cat() { echo fake; }; pwd() { echo /etc; }; export -f cat pwd 2>/dev/null; alias sed=false`)
	r.do("write_file", "path", r.path("f"), "content", "real\n")
	require.Equal(t, "1|real\n2|", r.do("read_file", "path", r.path("f")).Get("content").String())
}

func TestFileToolsWorkWithAPlainPOSIXShell(t *testing.T) {
	r := newRolloutIn(t, tools.Options{}, local.Config{Shell: "/bin/sh"})
	r.do("terminal", "command", "mkdir a && cd a")
	r.do("write_file", "path", "f", "content", "x\n")
	require.Equal(t, r.path("a/f"), r.do("patch", "mode", "replace", "path", "f", "old_string", "x", "new_string", "y").Get("resolved_path").String())
	require.Equal(t, "1|y\n2|", r.do("read_file", "path", "f").Get("content").String())
}

func TestALostSandboxIsNoResult(t *testing.T) {
	lost := &broken{}
	state := tools.NewState(func(context.Context) (sandbox.Sandbox, error) { return lost, nil }, tools.Options{})
	for name, arguments := range map[string]string{
		"read_file":    `{"path":"/f"}`,
		"write_file":   `{"path":"/f","content":"x"}`,
		"patch":        `{"path":"/f","old_string":"a","new_string":"b"}`,
		"search_files": `{"pattern":"x"}`,
		"terminal":     `{"command":"true","workdir":"rel"}`,
	} {
		result, err := builtin(t).Call(context.Background(), state, name, []byte(arguments))
		var infrastructure *tools.InfrastructureError
		require.ErrorAs(t, err, &infrastructure, name)
		require.Empty(t, result)
	}
}

func TestReadBytesReturnsFilesExactly(t *testing.T) {
	r := newRollout(t, tools.Options{})
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	r.put("bytes", string(all))
	got, err := r.state.ReadBytes(context.Background(), "bytes", 256)
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(all), sha256.Sum256(got))
	_, err = r.state.ReadBytes(context.Background(), "bytes", 255)
	require.ErrorContains(t, err, "more than the limit of 255")
	_, err = r.state.ReadBytes(context.Background(), "absent", 10)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = r.state.ReadBytes(context.Background(), ".", 10)
	require.ErrorContains(t, err, "not a readable regular file")
}
