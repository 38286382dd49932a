package tools

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func zipped(t testing.TB, parts map[string]string) []byte {
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for name, content := range parts {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return buffer.Bytes()
}

const notebook = `{"cells":[{"cell_type":"markdown","source":["# Title\n","text"]},
{"cell_type":"code","source":"1/0","outputs":[{"text":["a\n","b\n"]},{"data":{"text/plain":"42"}},{"ename":"ZeroDivisionError","evalue":"division by zero"}]}]}`

func wordDocument(t testing.TB) []byte {
	return zipped(t, map[string]string{"word/document.xml": `<w:document xmlns:w="u"><w:body><w:p><w:r><w:t>Hello</w:t><w:tab/><w:t xml:space="preserve"> &lt;wörld&gt;</w:t></w:r></w:p><w:p><w:pPr>no text</w:pPr></w:p><w:p><w:t>a</w:t><w:br/><w:t>b</w:t></w:p></w:body></w:document>`})
}

func workbook(t testing.TB) []byte {
	return zipped(t, map[string]string{
		"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="r1" Target="worksheets/sheet1.xml"/><Relationship Id="r2" Target="/xl/worksheets/other.xml"/></Relationships>`,
		"xl/workbook.xml":            `<workbook xmlns:r="x"><sheets><sheet name="Second" r:id="r2"/><sheet name="First" r:id="r1"/></sheets></workbook>`,
		"xl/sharedStrings.xml":       `<sst><si><t>name</t></si><si><r><t>rich </t></r><r><t>text</t></r></si></sst>`,
		"xl/worksheets/sheet1.xml":   `<worksheet><sheetData><row><c r="A1" t="s"><v>0</v></c><c r="D1"><v>4.5</v></c></row><row><c r="B2" t="inlineStr"><is><t>in line</t></is></c></row></sheetData></worksheet>`,
		"xl/worksheets/other.xml":    `<worksheet><sheetData><row><c t="s"><v>1</v></c><c r="B1" t="s"><v>99</v></c></row></sheetData></worksheet>`,
	})
}

func TestDocumentsAreShownAsText(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"n.ipynb": {[]byte(notebook), "[cell 1: markdown]\n# Title\ntext\n\n[cell 2: code]\n1/0\n[output of cell 2]\na\nb\n[output of cell 2]\n42\n[output of cell 2]\nZeroDivisionError: division by zero\n\n"},
		"d.DOCX":  {wordDocument(t), "Hello\t <wörld>\n\na\nb\n"},
		"w.xlsx":  {workbook(t), "[sheet: Second]\nrich text\t99\n\n[sheet: First]\nname\t\t\t4.5\n\tin line\n\n"},
	} {
		text, err := extractorFor(name)(c.raw)
		require.NoError(t, err)
		require.Equal(t, c.want, text)
	}
	require.Nil(t, extractorFor("plain.txt"))
	require.Equal(t, []int{0, 25, 26, 16_383, 0}, []int{columnOf("A1"), columnOf("Z9"), columnOf("AA1"), columnOf("ZZZZZZZZ1"), columnOf("")})
}

func TestDocumentsThatUnpackWithoutEndAreRefused(t *testing.T) {
	bomb := zipped(t, map[string]string{"word/document.xml": "<w>" + strings.Repeat(" ", 1<<20) + "</w>"})
	archive, err := openDocument(bomb)
	require.NoError(t, err)
	require.EqualValues(t, maxUnpacked, archive.left)
	archive.left = 100_000
	_, err = documentText(archive)
	require.ErrorContains(t, err, "too large once unpacked")
}

func FuzzDocumentsNeverPanic(f *testing.F) {
	f.Add([]byte(notebook), uint8(0))
	f.Add([]byte(`{"cells":[{"source":5,"outputs":{}},7]}`), uint8(0))
	f.Add(wordDocument(f), uint8(1))
	f.Add(workbook(f), uint8(2))
	f.Fuzz(func(t *testing.T, raw []byte, kind uint8) {
		text, _ := extractorFor([]string{"a.ipynb", "a.docx", "a.xlsx"}[kind%3])(raw)
		require.LessOrEqual(t, len(text), 3*maxExtracted)
	})
}
