package chattemplate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse_FindsTheShapeOfContentAsTheEngines(t *testing.T) {
	for _, test := range []struct {
		source       string
		vllm, sglang contentFormat
	}{
		{`{% for message in messages %}{{ message.content }}{% endfor %}`, contentText, contentText},
		{`{% for message in messages %}{% for c in message.content %}{% endfor %}{% endfor %}`, contentParts, contentParts},
		{`{% for message in messages %}{% for c in message['content'] %}{% endfor %}{% endfor %}`, contentParts, contentParts},
		{`{% for message in messages %}{% for c in message[key] %}{% endfor %}{% endfor %}`, contentText, contentText},
		{`{% for msg in messages %}{% for c in msg.content|list %}{% endfor %}{% endfor %}`, contentParts, contentParts},
		{`{% for turn in messages %}{% for c in turn.content[1:] %}{% endfor %}{% endfor %}`, contentParts, contentText},
		{`{% set rest = messages[1:] %}{% set more = rest|list %}{% for turn in more %}{% if true %}{% for c in turn.content %}{% endfor %}{% endif %}{% endfor %}`, contentParts, contentText},
		{`{% set a = b %}{% set b = a %}{% set a = messages %}{% for turn in b %}{% for c in turn.content %}{% endfor %}{% endfor %}`, contentParts, contentText},
		{`{% macro show(message) %}{% for c in message.content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}`, contentText, contentParts},
		{`{% macro show(m) %}{% for c in m.content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}`, contentParts, contentParts},
		{`{% for message in messages %}{% set content = message.content %}{% for c in content %}{% endfor %}{% endfor %}`, contentParts, contentText},
		{`{% macro show(content) %}{% for c in content %}{% endfor %}{% endmacro %}`, contentParts, contentText},
		{`{% macro show(content) %}{% for c in content|list %}{% endfor %}{% for a, b in content %}{% endfor %}{% endmacro %}`, contentText, contentText},
		{`{% set ns = namespace() %}{% set ns.all = messages %}{% for message in messages %}{% for c in message.content %}{% endfor %}{% endfor %}`, contentText, contentParts},
		{`{% for a, b in messages %}{% endfor %}{% for message in messages %}{% for c in message.content %}{% endfor %}{% endfor %}`, contentText, contentParts},
		{`{% for message in messages %}{% for a, b in message.content %}{% endfor %}{% endfor %}`, contentText, contentParts},
		{`{% for message in messages if message.content %}{{ message.content }}{% else %}{% for c in message.content %}{% endfor %}{% endfor %}`, contentParts, contentParts},
		{`{# an image #}{% for message in messages %}{{ message.content }}{% endfor %}`, contentText, contentParts},
		{`{% for message in messages %}{% call x() %}{% filter trim %}{% with y = 1 %}{% set z %}{% block b %}{% generation %}{% autoescape false %}{% for c in message.content %}{% endfor %}{% endautoescape %}{% endgeneration %}{% endblock %}{% endset %}{% endwith %}{% endfilter %}{% endcall %}{% endfor %}`, contentParts, contentParts},
	} {
		tmpl, err := Parse("t", test.source)
		require.NoError(t, err)
		require.Equal(t, test.vllm, tmpl.vllm, "vLLM: %s", test.source)
		require.Equal(t, test.sglang, tmpl.sglang, "SGLang: %s", test.source)
	}
}
