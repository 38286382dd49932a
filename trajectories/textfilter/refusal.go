package textfilter

import (
	"regexp"
	"slices"
	"strings"
)

// refusalBytes is how much of an answer is looked at: refusals stand at the beginning.
const refusalBytes = 600

// Refusals finds answers that refuse. It is safe for concurrent use.
type Refusals struct{ phrases []phrase }

// phrase is a way to refuse, in lower case. Only answers with one of the marks are matched,
// which saves most of the time.
type phrase struct {
	marks   []string
	pattern *regexp.Regexp
}

// NewRefusals returns the usual phrases of assistants, in English and, fewer, in Chinese,
// German, French and Spanish. Verbs say what is refused, so that "I can't find the file" is
// not a refusal.
func NewRefusals() *Refusals {
	const (
		not = `(?:can ?not|can't|could not|couldn't|won't|will not|(?:am|'m) (?:not able|unable|not going|not allowed|not permitted|not programmed|not designed) to|must not)`
		do  = `(?:assist|help|comply|fulfil+|provide|support|engage|participate|partake|create|generate|produce|write|answer|discuss|share|offer|give (?:you|advice|instructions)|` +
			`facilitate|encourage|condone|promote|satisfy|accommodate|do (?:that|this)|continue with)`
	)
	r := &Refusals{}
	for _, p := range []struct{ marks, pattern string }{
		{"sorry|apologi|apology|afraid|unfortunately|regret", `(?:sorry|apologi[sz]e|apologies|apology|afraid|unfortunately|regret)[^.!?\n]{0,60}\bi ?` + not + ` (?:\w+ ){0,3}?` + do + `\b`},
		{"i can|i will|i won't|i am|i'm|i must", `^\W*(?:no[,.]? )?i ?` + not + ` (?:\w+ ){0,2}?` + do + `\b[^.!?\n]{0,80}\b(?:request|that|this|you|illegal|harmful|content|information|instructions)\b`},
		{"decline|refuse", `\bi (?:must|have to|need to|will|would) (?:\w+ )?(?:decline|refuse)\b`},
		{"as a", `\bas an? (?:ai|artificial intelligence|large language|language)[- ](?:\w+[, ]+){0,3}?i (?:\w+ )?(?:can ?not|can't|don't|do not|am not|am unable|won't)`},
		{"against my", `\b(?:goes|is|would be) against my (?:guidelines|programming|policies|principles|ethical)`},
		{"抱歉|对不起|很遗憾", `(?:抱歉|对不起|很遗憾)[^。！？\n]{0,30}(?:无法|不能|不可以)[^。！？\n]{0,20}(?:提供|帮助|协助|回答|满足|完成|生成|支持|讨论)`},
		{"作为|身为", `(?:作为|身为)(?:一个|一名)?(?:人工智能|ai|语言模型|大型语言模型)[^。！？\n]{0,30}(?:无法|不能)`},
		{"leid|entschuldigung|leider", `(?:tut mir leid|entschuldigung|leider)[^.!?\n]{0,60}\bkann ich[^.!?\n]{0,60}nicht (?:helfen|beantworten|unterstützen|behilflich|bereitstellen|erstellen)`},
		{"désol|malheureusement", `(?:désolée?|malheureusement)[^.!?\n]{0,40}je ne (?:peux|suis)[^.!?\n]{0,40}(?:aider|répondre|fournir|assister|créer)`},
		{"lo siento|lamenta|lo lamento", `(?:lo siento|lamentablemente|lo lamento)[^.!?\n]{0,40}no (?:puedo|me es posible)[^.!?\n]{0,40}(?:ayudar|responder|proporcionar|asistir|crear|ofrecer)`},
	} {
		r.phrases = append(r.phrases, phrase{strings.Split(p.marks, "|"), regexp.MustCompile(p.pattern)})
	}
	return r
}

// Find returns the words by which an answer refuses, in lower case, "" if it does not.
func (r *Refusals) Find(answer string) string {
	if len(answer) > refusalBytes {
		answer = strings.ToValidUTF8(answer[:refusalBytes], "")
	}
	answer = strings.ReplaceAll(strings.ToLower(answer), "\u2019", "'")
	for _, p := range r.phrases {
		if slices.ContainsFunc(p.marks, func(mark string) bool { return strings.Contains(answer, mark) }) {
			if found := p.pattern.FindString(answer); found != "" {
				return found
			}
		}
	}
	return ""
}
