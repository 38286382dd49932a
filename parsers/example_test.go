package parsers_test

import (
	"fmt"

	"github.com/hermes-env/hermes-env/parsers"
)

func ExampleLookup() {
	format, err := parsers.Lookup("hermes")
	if err != nil {
		fmt.Println(err)
		return
	}
	parsed := format.Parse(`I look.<tool_call>{"name": "get_weather", "arguments": {"city": "Bern"}}</tool_call>`, nil)
	fmt.Println(*parsed.Content)
	for _, call := range parsed.Calls {
		fmt.Println(call.Name, call.Arguments)
	}
	// Output:
	// I look.
	// get_weather {"city": "Bern"}
}

func ExampleFormat_Stream() {
	format, err := parsers.Lookup("kimi_k2")
	if err != nil {
		fmt.Println(err)
		return
	}
	stream := format.Stream(nil)
	show := func(events []parsers.Event) {
		for _, e := range events {
			fmt.Printf("%s %d %q\n", e.Kind, e.Index, e.ID+e.Text)
		}
	}
	for _, piece := range []string{
		"I look.<|tool_calls", "_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>",
		`{"city": `, `"Bern"}`, "<|tool_call_end|><|tool_calls_section_end|>",
	} {
		show(stream.Feed(piece))
	}
	show(stream.Finish())
	// Output:
	// content 0 "I look."
	// call_start 0 "functions.get_weather:0"
	// args 0 "{\"city\":"
	// args 0 " \"Bern\"}"
	// call_end 0 ""
}

func ExampleFormat_Render() {
	format, err := parsers.Lookup("glm45")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := format.Render("I look.", []parsers.Call{{Name: "get_weather", Arguments: `{"city": "Bern", "days": 3}`}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	// Output:
	// I look.
	// <tool_call>get_weather
	// <arg_key>city</arg_key>
	// <arg_value>Bern</arg_value>
	// <arg_key>days</arg_key>
	// <arg_value>3</arg_value>
	// </tool_call>
}

func ExampleSplitReasoning() {
	reasoning, rest := parsers.SplitReasoning("<think>\nRain is likely.\n</think>\n\nTake a coat.", parsers.ReasoningConfig{})
	fmt.Println(reasoning)
	fmt.Println(rest)
	// Output:
	// Rain is likely.
	// Take a coat.
}
