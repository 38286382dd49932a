package trajectories

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// ConfigChange is a change of the configuration that a resumed run went on in spite of:
// what it recorded before and after does not answer the same question.
type ConfigChange struct {
	ChangedAt    string          `json:"changed_at"`
	Rollouts     int             `json:"rollouts"`      // recorded before it, by the configuration kept here
	Changes      []string        `json:"changes"`       // "path: old -> new"
	ConfigDigest string          `json:"config_digest"` // before
	Config       json.RawMessage `json:"config"`        // before
}

// Sentence says what changed, for people.
func (c *ConfigChange) Sentence() string {
	noun := "rollouts were"
	if c.Rollouts == 1 {
		noun = "rollout was"
	}
	return fmt.Sprintf("%d %s recorded before the configuration changed (%s)", c.Rollouts, noun, strings.Join(c.Changes, "; "))
}

// reconcile compares what info says with what the run was started with. It returns the
// settings that may be changed when the user insists, and those that never may.
func (m *Manifest) reconcile(info *Info) (changed, fixed []string) {
	if info.Command != m.Command {
		fixed = append(fixed, "command: "+m.Command+" -> "+info.Command)
	}
	if info.Environment != m.Environment {
		fixed = append(fixed, "environment: "+m.Environment+" -> "+info.Environment)
	}
	switch digest := info.digest(); {
	case m.Affecting != nil && info.Affecting != nil:
		recorded := m.Affecting
		if info.Upgrade != nil {
			recorded = info.Upgrade(recorded)
		}
		// A setting that did not exist when the run began had the effect of its default.
		changed = DiffConfigs(withDefaults(recorded, info.Defaults), info.Affecting)
	case digest != m.ConfigDigest:
		if changed = DiffConfigs(m.Config, info.Config); len(changed) == 0 {
			changed = []string{"config digest: " + m.ConfigDigest + " -> " + digest}
		}
	}
	// Mode and environment are part of a configuration, and have been named.
	changed = slices.DeleteFunc(changed, func(line string) bool {
		return len(fixed) > 0 && (strings.HasPrefix(line, "mode: ") || strings.HasPrefix(line, "environment: "))
	})
	if info.Tools != nil {
		// The model would see other tools than in the rollouts already recorded.
		for _, line := range DiffConfigs(toolsByName(m.Tools), toolsByName(info.Tools.JSON())) {
			changed = append(changed, "tools."+line)
		}
	}
	return changed, fixed
}

// withDefaults adds the settings that a configuration lacks with their defaults, in
// objects of objects too.
func withDefaults(config, defaults json.RawMessage) json.RawMessage {
	object, err := chat.ParseObject(config)
	if err != nil {
		return config
	}
	gjson.ParseBytes(defaults).ForEach(func(key, value gjson.Result) bool {
		switch have := object.Get(key.String()); {
		case have == nil:
			object.Set(key.String(), json.RawMessage(value.Raw))
		case value.IsObject():
			object.Set(key.String(), withDefaults(have, json.RawMessage(value.Raw)))
		}
		return true
	})
	return object.Append(nil)
}

// adopt makes the configuration of info the run's, and remembers the old one when
// settings changed that can affect results. rollouts is how many there are by now.
func (m *Manifest) adopt(info *Info, changed []string, rollouts int, now time.Time) error {
	m.Flags = info.Flags
	if len(changed) == 0 {
		if m.Affecting == nil && info.digest() == m.ConfigDigest {
			m.Affecting = info.Affecting // the run is of a version that did not keep it
		}
		return nil
	}
	change := ConfigChange{ChangedAt: now.UTC().Format(timeLayout), Rollouts: rollouts, Changes: changed, ConfigDigest: m.ConfigDigest, Config: m.Config}
	m.ConfigHistory = append(m.ConfigHistory, change)
	if m.Comparable != nil {
		m.Deviations = append(m.Deviations, change.Sentence())
	}
	m.Config, m.ConfigDigest, m.Affecting = info.Config, info.digest(), info.Affecting
	if info.Seeds != nil {
		m.Seeds = info.Seeds
	}
	if info.Tools == nil {
		return nil
	}
	before, err := m.toolset()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var retired []chat.ToolDefinition
	for _, d := range before.Definitions() {
		if !info.Tools.Has(d.Name) {
			retired = append(retired, d)
		}
	}
	m.Tools, m.ToolNames, m.RetiredTools = info.Tools.JSON(), info.Tools.Names(), nil
	if len(retired) == 0 {
		return nil
	}
	gone, err := chat.NewToolset(retired...)
	if err != nil {
		return fmt.Errorf("keep the tools of earlier rollouts: %w", err)
	}
	m.RetiredTools = gone.JSON()
	m.ToolNames = append(m.ToolNames, gone.Names()...)
	slices.Sort(m.ToolNames)
	return nil
}
