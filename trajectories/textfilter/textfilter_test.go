package textfilter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func words(text string) Words { return SplitWords(text, Words{}) }

func TestSplitWords_IgnoresCasePunctuationAndForms(t *testing.T) {
	a, b := words("The QUICK, brown fox -- jumps!"), words("the quick  brown\nfox jumps")
	require.Equal(t, a.hashes, b.hashes)
	require.Equal(t, "QUICK, brown", a.Text(1, 2))
	full, half := words("ＡＢＣ １２"), words("abc 12")
	require.Equal(t, full.hashes, half.hashes)
	chinese := words("今天天气好 ok")
	require.Equal(t, 6, chinese.Len())
	marks := words("... \n!")
	require.Zero(t, marks.Len())
	again := SplitWords("one", a)
	require.Equal(t, 1, again.Len())
}

func TestEachGram_GivesEqualHashesForEqualWords(t *testing.T) {
	w := words("a b c a b c d")
	grams := map[uint64][]int{}
	eachGram(w.hashes, 3, func(first int, hash uint64) { grams[hash] = append(grams[hash], first) })
	require.Len(t, grams, 4)
	require.Contains(t, fmt.Sprint(grams), "[0 3]")
	eachGram(w.hashes, 8, func(int, uint64) { t.Fatal("the text has only seven words") })
}

// prose returns n words from a small vocabulary.
func prose(random *rand.Rand, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("w", random.IntN(3000))
	}
	return list
}

// jaccard is the exact similarity of two texts.
func jaccard(a, b []string, n int) float64 {
	set := func(list []string) map[string]bool {
		m := map[string]bool{}
		for i := range len(list) - n + 1 {
			m[strings.Join(list[i:i+n], " ")] = true
		}
		return m
	}
	x, y := set(a), set(b)
	both := 0
	for g := range x {
		if y[g] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

func TestSimilarity_EstimatesTheJaccardIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	signer := NewSigner(5)
	for _, changes := range []int{0, 1, 4, 10, 40} {
		a := prose(random, 400)
		b := append([]string(nil), a...)
		for range changes {
			b[random.IntN(len(b))] = "other"
		}
		wa, wb := words(strings.Join(a, " ")), words(strings.Join(b, " "))
		sa, ok := signer.Sign(&wa)
		require.True(t, ok)
		sb, ok := signer.Sign(&wb)
		require.True(t, ok)
		require.InDelta(t, jaccard(a, b, 5), Similarity(&sa, &sb), 0.12, "%d changes", changes)
	}
}

func TestSigner_SignsShortTextsWhole(t *testing.T) {
	signer := NewSigner(5)
	a, b, c, empty := words("Yes, done."), words("yes done"), words("no"), words("?!")
	sa, ok := signer.Sign(&a)
	require.True(t, ok)
	sb, _ := signer.Sign(&b)
	sc, _ := signer.Sign(&c)
	require.Equal(t, sa, sb)
	require.Less(t, Similarity(&sa, &sc), 0.2)
	_, ok = signer.Sign(&empty)
	require.False(t, ok)
}

func TestNearIndex_FindsPlantedDuplicates(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	signer := NewSigner(5)
	x, err := NewNearIndex(0.8)
	require.NoError(t, err)
	originals, found, wrong := map[int][]string{}, 0, 0
	planted := 0
	for i := range 6000 {
		text := prose(random, 150)
		of := -1
		if len(originals) > 0 && i%10 == 0 {
			of = random.IntN(i)
			for originals[of] == nil {
				of = random.IntN(i)
			}
			text = append([]string(nil), originals[of]...)
			text[random.IntN(len(text))] = "other" // 5 of 146 n-grams: a similarity of 0.93
			planted++
		}
		w := words(strings.Join(text, " "))
		s, ok := signer.Sign(&w)
		require.True(t, ok)
		earlier, similarity, duplicate := x.FindOrAdd(i, &s)
		switch {
		case duplicate && earlier == of:
			require.InDelta(t, 0.93, similarity, 0.12)
			found++
		case duplicate:
			wrong++
		default:
			originals[i] = text
		}
	}
	require.Zero(t, wrong)
	require.GreaterOrEqual(t, found, planted*98/100)
}

func TestNearIndex_RefusesThresholds(t *testing.T) {
	for _, threshold := range []float64{0, 0.49, 1.01, -1} {
		_, err := NewNearIndex(threshold)
		require.Error(t, err, threshold)
	}
}

// Signatures that share a band by the thousand must not be compared with each other.
func TestNearIndex_BoundsTheComparisonsOfOneBand(t *testing.T) {
	x, err := NewNearIndex(0.8)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(5, 6))
	const texts = 4000
	for i := range texts {
		var s Signature
		for k := x.rows; k < len(s); k++ {
			s[k] = byte(random.IntN(256))
		}
		_, _, found := x.FindOrAdd(i, &s)
		require.False(t, found)
	}
	require.Equal(t, texts*(x.bands-1)+maxCandidates, x.used)
}

func TestOverlaps_FindsNGramsOfEvaluationSets(t *testing.T) {
	question := "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did she sell altogether?"
	o := NewOverlaps(OverlapConfig{})
	require.Equal(t, 1, o.Add([]string{question, "72"}))
	require.Equal(t, 0, o.Add([]string{"too short to be looked for"}))
	require.Equal(t, 1, o.Add([]string{"What is the tallest mountain on the planet Mars?"}))
	require.Zero(t, o.Finish())
	var reuse Words

	found := o.Find([]string{"hello", "Solve this: natalia SOLD clips to 48 of her friends in April; and then she sold 3 more."}, &reuse)
	require.Len(t, found, 1)
	require.Equal(t, 0, found[0].Row)
	require.Equal(t, "natalia SOLD clips to 48 of her friends in April; and then she", found[0].Text)
	require.InDelta(t, 2.0/14, found[0].Share, 0.01)

	require.Empty(t, o.Find([]string{"Natalia sold clips to 48 of her friends.", "in April, and then she sold half"}, &reuse), "n-grams don't span messages")
	whole := o.Find([]string{"Q: what is the tallest mountain on the planet mars? A: Olympus Mons"}, &reuse)
	require.Len(t, whole, 1)
	require.Equal(t, Overlap{Row: 2, Share: 1, Text: "what is the tallest mountain on the planet mars"}, whole[0])
}

func TestOverlaps_AsksForAShare(t *testing.T) {
	text := strings.Join(strings.Fields("a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 a20"), " ")
	o := NewOverlaps(OverlapConfig{Words: 8, Share: 0.5})
	o.Add([]string{text})
	o.Finish()
	var reuse Words
	require.Empty(t, o.Find([]string{"a1 a2 a3 a4 a5 a6 a7 a8 a9"}, &reuse))
	found := o.Find([]string{"a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14"}, &reuse)
	require.Len(t, found, 1)
	require.InDelta(t, 7.0/13, found[0].Share, 1e-9)
}

func TestOverlaps_LeavesInstructionsOut(t *testing.T) {
	instruction := "Choose the right one of the four options below and answer with its letter only, please. "
	o := NewOverlaps(OverlapConfig{})
	for i := range 30 {
		o.Add([]string{instruction + fmt.Sprintf("Question %d asks about town%d and river%d in land%d with king%d and crop%d.", i, i, i, i, i, i)})
	}
	require.Positive(t, o.Finish())
	var reuse Words
	require.Empty(t, o.Find([]string{instruction}, &reuse))
	require.Len(t, o.Find([]string{"Question 3 asks about town3 and river3 in land3 with king3 and crop3."}, &reuse), 1)
}

func TestRepetition_MeasuresLoops(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	require.Zero(t, Repetition(strings.Join(prose(random, 500), " ")))
	require.Zero(t, Repetition(strings.Repeat("short text ", 5)), "too short to tell")
	require.Greater(t, Repetition(strings.Repeat("let me try that once more ", 40)), 0.9)
	require.Greater(t, Repetition(strings.Repeat("!", 300)), 0.9)
	require.Greater(t, Repetition(strings.Repeat("a", 3000)), 0.9)
	half := strings.Join(prose(random, 200), " ")
	require.InDelta(t, 0.5, Repetition(half+" "+half), 0.01)
}

func TestRefusals_TellRefusalsFromReports(t *testing.T) {
	r := NewRefusals()
	for _, refusal := range []string{
		"I'm sorry, but I can't assist with that.", "I\u2019m sorry, but I cannot help you with this request.", "Sorry, I can't provide instructions for that.",
		"I apologize, but I am unable to create this kind of content.", "Unfortunately, I'm not able to share that information.", "I cannot provide illegal content.",
		"As an AI language model, I don't have opinions about this.", "I must decline this request.", "That goes against my guidelines.", "I can't help with that.",
		"抱歉，我无法提供这方面的帮助。", "Es tut mir leid, aber dabei kann ich dir nicht helfen.", "Lo siento, pero no puedo ayudar con eso.", "Désolé, je ne peux pas vous aider avec ça.",
	} {
		require.NotEmpty(t, r.Find(refusal), refusal)
	}
	for _, answer := range []string{
		"I'm sorry, I couldn't find the file in /tmp.", "The tests can't be run without a network.", "Sorry for the delay. The answer is 42.", "I cannot see a file of this name, so I made one.",
		"Unfortunately the build failed with 3 errors.", "Here is how to help users who can't log in.", "An AI model can't vote.", "Es tut mir leid, die Datei fehlt.",
		"I could not reproduce the bug, but I wrote a test.", "I won't change the public API; the fix is internal.",
		strings.Repeat("The story went on. ", 60) + "\"I'm sorry, but I can't help you,\" she said.",
	} {
		require.Empty(t, r.Find(answer), answer)
	}
}

func TestLanguages_Detect(t *testing.T) {
	l, err := ParseLanguages([]string{"EN", "deu"})
	require.NoError(t, err)
	require.True(t, l.Wants("en"))
	require.True(t, l.Wants("de"))
	require.False(t, l.Wants("fr"))
	for code, text := range map[string]string{
		"en": "The function reads the file line by line and returns the number of words it has found, or an error if the file cannot be opened.",
		"de": "Die Funktion liest die Datei Zeile für Zeile und gibt die Anzahl der gefundenen Wörter zurück, oder einen Fehler, wenn sie nicht geöffnet werden kann.",
		"fr": "La fonction lit le fichier ligne par ligne et renvoie le nombre de mots trouvés, ou une erreur si le fichier ne peut pas être ouvert.",
		"es": "La función lee el archivo línea por línea y devuelve el número de palabras encontradas, o un error si el archivo no se puede abrir.",
		"ru": "Функция читает файл построчно и возвращает количество найденных слов или ошибку, если файл не может быть открыт для чтения.",
		"zh": "这个函数逐行读取文件，并返回找到的单词数量；如果文件无法打开，则返回错误。",
		"ja": "この関数はファイルを一行ずつ読み込み、見つかった単語の数を返します。ファイルを開けない場合はエラーを返します。",
		"ko": "이 함수는 파일을 한 줄씩 읽어 찾은 단어의 수를 반환하며, 파일을 열 수 없으면 오류를 반환합니다. 그리고 결과를 기록하고 다음 파일을 계속해서 읽습니다.",
		"":   "OK, done.",
	} {
		require.Equal(t, code, l.Detect(text), text)
	}
	require.Equal(t, "", l.Detect("```python\nfor line in open(path):\n    print(len(line.split()), line.strip(), sep=', ')\nraise SystemExit(0)\n```"))
	_, err = ParseLanguages([]string{"english"})
	require.ErrorContains(t, err, "there are: ")
}

func FuzzTexts(f *testing.F) {
	for _, seed := range []string{"", "a", "今天 e\u0301\xff", strings.Repeat("ab ", 100), "I'm sorry, but I can't help"} {
		f.Add(seed)
	}
	l, err := ParseLanguages([]string{"en"})
	require.NoError(f, err)
	refusals, signer := NewRefusals(), NewSigner(5)
	f.Fuzz(func(t *testing.T, text string) {
		w := words(text)
		if n := w.Len(); n > 0 {
			w.Text(0, n)
			s, ok := signer.Sign(&w)
			require.True(t, ok)
			require.InDelta(t, 1, Similarity(&s, &s), 1e-9)
		}
		o := NewOverlaps(OverlapConfig{})
		usable := o.Add([]string{text})
		o.Finish()
		var reuse Words
		require.Len(t, o.Find([]string{text}, &reuse), min(usable, 1), "a text contains itself")
		share := Repetition(text)
		require.True(t, share >= 0 && share <= 1, share)
		l.Detect(text)
		refusals.Find(text)
	})
}
