package tools

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// toolset is a named list of tools and of other toolsets.
type toolset struct {
	tools    []string
	includes []string
}

// coreTools is what the coding posture offers.
var coreTools = []string{
	"terminal", "process", "read_file", "write_file", "patch", "search_files", "execute_code",
	"delegate_task", "todo", "memory", "session_search", "clarify", "skills_list", "skill_view", "skill_manage",
	"web_search", "web_extract", "vision_analyze", "browser_navigate", "browser_snapshot", "browser_click",
	"browser_type", "browser_scroll", "browser_back", "browser_press", "browser_get_images", "browser_vision", "browser_console",
}

// standardToolsets is the static table of hermes-agent. A toolset is available in
// a registry when at least one of its tools is registered; the others are kept so
// that their names get a better error than "unknown". Tool names are this
// project's spelling of the upstream ones.
func standardToolsets() map[string]toolset {
	return map[string]toolset{
		"web":            {tools: []string{"web_search", "web_extract"}},
		"search":         {tools: []string{"web_search"}},
		"terminal":       {tools: []string{"terminal", "process"}},
		"file":           {tools: []string{"read_file", "write_file", "patch", "search_files"}},
		"code_execution": {tools: []string{"execute_code"}},
		"delegation":     {tools: []string{"delegate_task"}},
		"todo":           {tools: []string{"todo"}},
		"memory":         {tools: []string{"memory"}},
		"session_search": {tools: []string{"session_search"}},
		"clarify":        {tools: []string{"clarify"}},
		"skills":         {tools: []string{"skills_list", "skill_view", "skill_manage"}},
		"vision":         {tools: []string{"vision_analyze"}},
		"video":          {tools: []string{"video_analyze"}},
		"image_gen":      {tools: []string{"image_generate"}},
		"video_gen":      {tools: []string{"video_generate"}},
		"tts":            {tools: []string{"text_to_speech"}},
		"moa":            {tools: []string{"mixture_of_agents"}},
		"browser": {tools: []string{"browser_navigate", "browser_snapshot", "browser_click", "browser_type", "browser_scroll",
			"browser_back", "browser_press", "browser_get_images", "browser_vision", "browser_console", "browser_close"}},
		"cronjob":       {tools: []string{"cronjob"}},
		"computer_use":  {tools: []string{"computer_use"}},
		"x_search":      {tools: []string{"x_search"}},
		"homeassistant": {tools: []string{"ha_list_entities", "ha_get_state", "ha_list_services", "ha_call_service"}},
		"debugging":     {tools: []string{"terminal", "process"}, includes: []string{"web", "file"}},
		"safe":          {includes: []string{"web", "vision", "image_gen"}},
		"coding":        {tools: coreTools},
	}
}

// legacyToolsets are the "_tools" names of old configs.
func legacyToolsets() map[string][]string {
	return map[string][]string{
		"web_tools":      {"web_search", "web_extract"},
		"terminal_tools": {"terminal"},
		"vision_tools":   {"vision_analyze"},
		"image_tools":    {"image_generate"},
		"moa_tools":      {"mixture_of_agents"},
		"skills_tools":   {"skills_list", "skill_view", "skill_manage"},
		"browser_tools": {"browser_navigate", "browser_snapshot", "browser_click", "browser_type", "browser_scroll",
			"browser_back", "browser_press", "browser_get_images", "browser_vision", "browser_console"},
		"cronjob_tools": {"cronjob"},
		"file_tools":    {"read_file", "write_file", "patch", "search_files"},
		"tts_tools":     {"text_to_speech"},
	}
}

// Toolsets returns the names of the toolsets that have at least one registered tool, sorted.
func (r *Registry) Toolsets() []string {
	candidates := map[string]bool{}
	for name := range standardToolsets() {
		candidates[name] = true
	}
	for name := range r.owners {
		candidates[name] = true
	}
	var names []string
	for name := range candidates {
		if len(r.members(name)) > 0 {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// members returns the registered tools of a toolset, sorted, or nil when there are none.
func (r *Registry) members(name string) []string {
	found := map[string]bool{}
	if name == "all" || name == "*" {
		return r.Names()
	}
	r.collect(name, standardToolsets(), found, map[string]bool{})
	if len(found) == 0 {
		for _, tool := range legacyToolsets()[name] {
			r.add(tool, found)
		}
	}
	if len(found) == 0 {
		return nil
	}
	members := make([]string, 0, len(found))
	for tool := range found {
		members = append(members, tool)
	}
	sort.Strings(members)
	return members
}

func (r *Registry) collect(name string, table map[string]toolset, found, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, tool := range r.owners[name] {
		found[tool] = true
	}
	for _, tool := range table[name].tools {
		r.add(tool, found)
	}
	for _, included := range table[name].includes {
		r.collect(included, table, found, seen)
	}
}

func (r *Registry) add(tool string, found map[string]bool) {
	if e, ok := r.tools[tool]; ok {
		found[e.Name] = true
	}
}

// unknownToolset explains a toolset name that selects nothing.
func (r *Registry) unknownToolset(name string) error {
	available := r.Toolsets()
	list := strings.Join(available, ", ")
	_, standard := standardToolsets()[name]
	_, legacy := legacyToolsets()[name]
	if standard || legacy {
		return fmt.Errorf("toolset %q has no tools in this build; available are %s", name, list)
	}
	if t, ok := r.Lookup(name); ok {
		return fmt.Errorf("unknown toolset %q: that is a tool, its toolset is %q; available are %s", name, t.Toolset, list)
	}
	if near := textutil.Nearest(name, available); near != "" {
		return fmt.Errorf("unknown toolset %q, did you mean %q? available are %s", name, near, list)
	}
	return fmt.Errorf("unknown toolset %q; available are %s", name, list)
}
