package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Special tokens of the embedded model. One token stands for each of the 256 bytes,
// with the byte's value as its id; these follow.
const (
	startOfMessage = "<|im_start|>"
	endOfMessage   = "<|im_end|>"

	startID = 256
	endID   = 257
)

// folderTemplate is the chat template of the embedded model. It leaves the tool
// definitions out: what the model answers is scripted.
const folderTemplate = `{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == 'assistant' and m.tool_calls %}<|im_start|>assistant
{% if m.content %}{{ m.content }}
{% endif %}
{%- for call in m.tool_calls %}{{ '\n' if not loop.first else '' }}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// WriteFolder writes the model folder of the embedded model for clients that render and
// tokenize themselves: a tokenizer of bytes and a chat template.
func WriteFolder(dir string) error {
	vocabulary := []byte{'{'}
	for id, character := range byteCharacters() {
		if id > 0 {
			vocabulary = append(vocabulary, ',')
		}
		vocabulary = append(chat.AppendString(vocabulary, character), ':')
		vocabulary = strconv.AppendInt(vocabulary, int64(id), 10)
	}
	vocabulary = append(vocabulary, '}')
	byteLevel := `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}`
	added := func(id int, content string) string {
		return fmt.Sprintf(`{"id":%d,"content":%q,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}`, id, content)
	}
	tokenizer := fmt.Sprintf(`{"version":"1.0","truncation":null,"padding":null,"added_tokens":[%s,%s],"normalizer":null,"pre_tokenizer":%s,"post_processor":null,"decoder":%s,`+
		`"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":%s,"merges":[]}}`,
		added(startID, startOfMessage), added(endID, endOfMessage), byteLevel, byteLevel, vocabulary)
	settings := chat.AppendString(fmt.Appendf(nil, `{"eos_token":%q,"chat_template":`, endOfMessage), folderTemplate)
	for name, content := range map[string][]byte{
		"tokenizer.json":         []byte(tokenizer),
		"tokenizer_config.json":  append(settings, '}'),
		"generation_config.json": fmt.Appendf(nil, `{"eos_token_id":[%d]}`, endID),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write the folder of the replay model: %w", err)
		}
	}
	return nil
}

// byteCharacters are the characters that stand for bytes in byte-level vocabularies:
// the byte itself where it is printable, else one from U+0100 on.
func byteCharacters() [256]string {
	var table [256]string
	next := rune(256)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			table[b] = string(rune(b))
			continue
		}
		table[b] = string(next)
		next++
	}
	return table
}
