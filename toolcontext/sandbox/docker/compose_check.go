package docker

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// composeChecker turns a compose file into one that is safe to run, many times at once:
// what reaches the machine is refused, what would collide is left out, and every path
// is absolute. A key that it does not know counts as unsafe.
type composeChecker struct {
	file   *composeFile
	unsafe bool // what reaches the machine is let through
	// capabilities and newPrivileges are what the configuration allows.
	capabilities  sandbox.Capabilities
	newPrivileges bool
}

// refusal says that something of a compose file is not allowed.
func (c *composeChecker) refusal(at *yaml.Node, key, why string) error {
	return fmt.Errorf("the compose file %s, line %d: %s: %s; env.compose_allow_unsafe lets it through, for files you trust", c.file.path, at.Line, key, why)
}

// Keys of a service by what becomes of them. Others are unsafe.
var (
	keptKeys = []string{
		"command", "entrypoint", "working_dir", "user", "expose", "hostname", "domainname", "init", "healthcheck", "depends_on", "links",
		"stop_signal", "stop_grace_period", "tty", "stdin_open", "read_only", "tmpfs", "shm_size", "mem_limit", "mem_reservation", "cpus",
		"cpu_shares", "cpu_quota", "cpu_period", "pids_limit", "ulimits", "restart", "profiles", "platform", "dns", "dns_search", "networks", "cap_drop",
		"image", "group_add", "extra_hosts",
	}
	droppedKeys = []string{"labels", "container_name", "ports", "logging", "pull_policy", "annotations", "attach", "scale", "memswap_limit", "build", "env_file", "environment", "volumes", "deploy"}
)

// service checks one service and returns what is left of it.
func (c *composeChecker) service(name string, given *yaml.Node) (*yaml.Node, error) {
	if given.Kind != yaml.MappingNode {
		return nil, c.refusal(given, "services."+name, "it is no mapping")
	}
	s := mapping()
	for key, value := range pairs(given) {
		at := "services." + name + "." + key.Value
		keep, err := c.key(at, key, value)
		if err != nil {
			return nil, err
		}
		if keep {
			set(s, key.Value, value)
		}
	}
	environment, err := c.environment("services."+name, given)
	if err != nil {
		return nil, err
	}
	set(s, "environment", environment)
	if v := find(given, "volumes"); v != nil {
		volumes, err := c.volumes("services."+name+".volumes", v)
		if err != nil {
			return nil, err
		}
		set(s, "volumes", volumes)
	}
	if limits := find(find(find(given, "deploy"), "resources"), "limits"); limits != nil {
		for from, to := range map[string]string{"cpus": "cpus", "memory": "mem_limit", "pids": "pids_limit"} {
			if v := find(limits, from); v != nil {
				set(s, to, v)
			}
		}
	}
	return s, nil
}

// key checks a key of a service and reports whether it stays.
func (c *composeChecker) key(at string, key, value *yaml.Node) (keep bool, err error) {
	v := value.Value
	switch {
	case key.Value == "extra_hosts" && mentions(value, "host-gateway") && !c.unsafe:
		return false, c.refusal(key, at, "host-gateway leads to the machine")
	case slices.Contains(keptKeys, key.Value):
		return true, nil
	case slices.Contains(droppedKeys, key.Value), strings.HasPrefix(key.Value, "x-"):
		return false, nil
	case c.unsafe && key.Value != "extends":
		return true, nil
	}
	switch key.Value {
	case "extends":
		return false, fmt.Errorf("the compose file %s, line %d: %s is not supported; write the service out, or use a YAML anchor", c.file.path, key.Line, at)
	case "privileged":
		if v == "false" {
			return false, nil
		}
		return false, c.refusal(key, at, "a privileged container is root on the machine")
	case "network_mode":
		if v == "none" || strings.HasPrefix(v, "service:") {
			return true, nil
		}
		return false, c.refusal(key, at, fmt.Sprintf("the network %q is not the project's own", v))
	case "pid", "ipc":
		if strings.HasPrefix(v, "service:") || v == "private" || v == "shareable" {
			return true, nil
		}
		return false, c.refusal(key, at, fmt.Sprintf("%q is not the project's own", v))
	case "cap_add":
		for _, item := range value.Content {
			if !c.capabilities.Has(strings.TrimPrefix(strings.ToUpper(item.Value), "CAP_")) {
				return false, c.refusal(item, at, fmt.Sprintf("the capability %s is not among those sandboxes have (env.sandbox_capabilities is %s)", item.Value, c.capabilities))
			}
		}
		return false, nil // set by confine
	case "security_opt":
		for _, item := range value.Content {
			if !strings.HasPrefix(item.Value, noNewPrivileges) || strings.HasSuffix(item.Value, "false") && !c.newPrivileges {
				return false, c.refusal(item, at, fmt.Sprintf("%q weakens what holds the container in", item.Value))
			}
		}
		return c.newPrivileges, nil // else set by confine
	case "devices", "cgroup_parent", "cgroup", "userns_mode", "uts", "device_cgroup_rules", "volumes_from", "runtime", "sysctls", "oom_kill_disable", "oom_score_adj", "external_links", "gpus", "use_api_socket", "credential_spec", "configs", "secrets":
		return false, c.refusal(key, at, "it reaches beyond the project")
	}
	return false, c.refusal(key, at, "this key is not known to be safe")
}

// mentions reports whether any text below a node contains a word.
func mentions(n *yaml.Node, word string) bool {
	return strings.Contains(n.Value, word) || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return mentions(c, word) })
}

// environment returns a service's variables, those of its files put in. A variable
// without a value would be the harness's: it is left out.
func (c *composeChecker) environment(at string, service *yaml.Node) (*yaml.Node, error) {
	result := mapping()
	if files := find(service, "env_file"); files != nil {
		items := []*yaml.Node{files}
		if files.Kind == yaml.SequenceNode {
			items = files.Content
		}
		for _, item := range items {
			if err := c.envFile(at+".env_file", item, result); err != nil {
				return nil, err
			}
		}
	}
	given := find(service, "environment")
	for key, value := range pairs(given) {
		if value.Tag != "!!null" {
			set(result, key.Value, text(value.Value))
		}
	}
	if given != nil && given.Kind == yaml.SequenceNode {
		for _, item := range given.Content {
			if name, value, ok := strings.Cut(item.Value, "="); ok {
				set(result, name, text(value))
			}
		}
	}
	return result, nil
}

func (c *composeChecker) envFile(at string, item, result *yaml.Node) error {
	path := item.Value
	if p := find(item, "path"); p != nil {
		path = p.Value
	}
	real, err := c.file.within(path)
	if err != nil {
		if required := find(item, "required"); os.IsNotExist(err) && required != nil && required.Value == "false" {
			return nil
		}
		return fmt.Errorf("the compose file %s, line %d: %s: %s: %w", c.file.path, item.Line, at, path, err)
	}
	root, err := os.OpenRoot(c.file.folder)
	if err != nil {
		return err
	}
	defer root.Close()
	below, err := filepath.Rel(c.file.folder, real)
	if err != nil {
		return err
	}
	content, err := readBounded(root, below)
	if err != nil {
		return fmt.Errorf("the compose file %s, line %d: %s: %w", c.file.path, item.Line, at, err)
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		set(result, strings.TrimSpace(name), text(value))
	}
	return nil
}

// volumes checks what a service mounts: volumes of the project, memory, and files of
// the task's folder, which it can only read, because other rollouts have them too.
func (c *composeChecker) volumes(at string, given *yaml.Node) (*yaml.Node, error) {
	result := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, item := range given.Content {
		kind, source, target, readOnly := "", "", "", false
		if item.Kind == yaml.ScalarNode {
			parts := strings.SplitN(item.Value, ":", 3)
			switch {
			case len(parts) == 1:
				kind, target = "volume", parts[0]
			default:
				source, target = parts[0], parts[1]
				kind = "volume"
				if strings.ContainsAny(source, "/\\~") || strings.HasPrefix(source, ".") {
					kind = "bind"
				}
				readOnly = len(parts) == 3 && slices.Contains(strings.Split(parts[2], ","), "ro")
			}
		} else {
			for field, into := range map[string]*string{"type": &kind, "source": &source, "target": &target} {
				if v := find(item, field); v != nil {
					*into = v.Value
				}
			}
			if v := find(item, "read_only"); v != nil {
				readOnly = v.Value == "true"
			}
		}
		mount := mapping()
		set(mount, "type", text(kind))
		switch kind {
		case "volume":
			if source != "" {
				set(mount, "source", text(source))
			}
		case "tmpfs":
		case "bind":
			real, err := c.file.within(source)
			if err != nil && !c.unsafe {
				return nil, c.refusal(item, at, fmt.Sprintf("the mount of %s: %v", source, err))
			}
			if err != nil {
				real = source
				if !filepath.IsAbs(real) {
					real = filepath.Join(c.file.folder, real)
				}
			}
			readOnly = readOnly || !c.unsafe
			set(mount, "source", text(real))
		default:
			return nil, c.refusal(item, at, fmt.Sprintf("a mount of the kind %q", kind))
		}
		if !strings.HasPrefix(target, "/") {
			return nil, fmt.Errorf("the compose file %s, line %d: %s: the target %q is no absolute path", c.file.path, item.Line, at, target)
		}
		set(mount, "target", text(target))
		if readOnly {
			set(mount, "read_only", plainValue("true", "!!bool"))
		}
		result.Content = append(result.Content, mount)
	}
	return result, nil
}

// top checks the keys beside the services and returns the networks and volumes that
// are left, with labels.
func (c *composeChecker) top(labels map[string]string, internal bool) (networks, volumes *yaml.Node, err error) {
	networks, volumes = mapping(), mapping()
	set(networks, "default", mapping())
	for key, value := range pairs(c.file.top) {
		switch {
		case key.Value == "services", key.Value == "version", key.Value == "name", strings.HasPrefix(key.Value, "x-"):
		case key.Value == "networks":
			err = c.shared("networks", value, networks, []string{"internal", "ipam", "enable_ipv6", "attachable"})
		case key.Value == "volumes":
			err = c.shared("volumes", value, volumes, nil)
		default:
			err = fmt.Errorf("the compose file %s, line %d: %s is not supported", c.file.path, key.Line, key.Value)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for _, all := range []*yaml.Node{networks, volumes} {
		for _, value := range pairs(all) {
			set(value, "labels", labelNode(labels))
		}
	}
	if internal {
		for _, value := range pairs(networks) {
			set(value, "internal", plainValue("true", "!!bool"))
		}
	}
	return networks, volumes, nil
}

// shared checks the networks or volumes of a project.
func (c *composeChecker) shared(what string, given, result *yaml.Node, kept []string) error {
	for name, value := range pairs(given) {
		one := mapping()
		for key, v := range pairs(value) {
			at := what + "." + name.Value + "." + key.Value
			switch {
			case slices.Contains(kept, key.Value):
				set(one, key.Value, v)
			case key.Value == "name", key.Value == "labels", strings.HasPrefix(key.Value, "x-"):
			case key.Value == "driver" && (v.Value == "bridge" || v.Value == "local" || v.Value == "default"), key.Value == "external" && v.Value == "false":
			case c.unsafe:
				set(one, key.Value, v)
			default:
				return c.refusal(key, at, "it reaches beyond the project")
			}
		}
		set(result, name.Value, one)
	}
	return nil
}

func labelNode(labels map[string]string) *yaml.Node {
	n := mapping()
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		set(n, key, text(labels[key]))
	}
	return n
}
