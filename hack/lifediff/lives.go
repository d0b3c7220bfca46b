package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/replay/pods"
)

// The images of the lives.
const (
	busyboxImage = "registry.example/busybox:1.37"
	nonRootImage = "registry.example/nonroot:1.5"
	agnhostImage = "registry.example/agnhost:2.63"
)

// writtenLives reads every file of dir: a list of lives in the form of test/recordings, with
// abbreviations. The step `pod` creates a Pod called p with this spec, or with `metadata` and
// `spec` below it. In a container `sh` is a script for a shell, and an image that is not named is
// Busybox; so it is in the content of a file without a kind. A quantity "60% of cpu" is a share of
// what the node can give. The node is called life-sample.
func writtenLives(dir string) ([]pods.Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var out []pods.Case
	seen := map[string]bool{}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var list []map[string]any
		if err := yaml.UnmarshalStrict(raw, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, life := range list {
			c, err := newLife(life)
			if err != nil {
				return nil, fmt.Errorf("%s: %v: %w", path, life["name"], err)
			}
			if seen[c.Name] {
				return nil, fmt.Errorf("%s: two lives are called %s", path, c.Name)
			}
			seen[c.Name] = true
			out = append(out, c)
		}
	}
	return out, nil
}

// newLife makes a life of its abbreviated form.
func newLife(life map[string]any) (pods.Case, error) {
	steps, _ := life["steps"].([]any)
	for _, s := range steps {
		step, _ := s.(map[string]any)
		if short, ok := step["pod"].(map[string]any); ok && len(step) == 1 {
			delete(step, "pod")
			step["create"] = completePod(short)
		}
		if file, ok := step["manifest-file"].(map[string]any); ok {
			if short, ok := file["content"].(map[string]any); ok && short["kind"] == nil {
				file["content"] = completePod(short)
			}
		}
	}
	raw, err := json.Marshal(life)
	if err != nil {
		return pods.Case{}, err
	}
	c, err := pods.Parse(raw)
	if err == nil && (c.Name == "" || c.Area == "" || len(c.Steps) == 0) {
		err = fmt.Errorf("a life has a name, an area and steps")
	}
	return c, err
}

func completePod(short map[string]any) map[string]any {
	spec, whole := short["spec"].(map[string]any)
	meta, _ := short["metadata"].(map[string]any)
	if !whole {
		spec, meta = short, nil
	}
	if meta == nil {
		meta = map[string]any{}
	}
	if meta["name"] == nil {
		meta["name"] = "p"
	}
	for _, kind := range []string{"initContainers", "containers"} {
		list, _ := spec[kind].([]any)
		for _, c := range list {
			if container, ok := c.(map[string]any); ok {
				completeContainer(container)
			}
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
}

func completeContainer(c map[string]any) {
	if script, ok := c["sh"]; ok {
		delete(c, "sh")
		c["command"] = []any{"sh", "-c", script}
	}
	if c["image"] == nil {
		c["image"] = busyboxImage
	}
}

// on is the life on a node: in a namespace of its own, its Pods bound to the node when they are
// created.
func on(c pods.Case, node, namespace string, allocatable v1.ResourceList) (pods.Case, error) {
	c.Namespace = namespace
	c.Steps = slices.Clone(c.Steps)
	for i, s := range c.Steps {
		var err error
		if c.Steps[i].Create, err = bound(shares(s.Create, allocatable), node); err != nil {
			return c, fmt.Errorf("step %d: %w", i, err)
		}
		if s.Patch != nil {
			p := *s.Patch
			p.Body, c.Steps[i].Patch = shares(p.Body, allocatable), &p
		}
		if s.ManifestFile != nil && len(s.ManifestFile.Content) > 0 {
			m := *s.ManifestFile
			if m.Content, err = inNamespace(m.Content, namespace); err != nil {
				return c, fmt.Errorf("step %d: %w", i, err)
			}
			c.Steps[i].ManifestFile = &m
		}
	}
	return c, nil
}

var share = regexp.MustCompile(`"(\d+)% of (cpu|memory)"`)

// shares puts quantities for shares of what the node can give.
func shares(raw []byte, allocatable v1.ResourceList) []byte {
	return share.ReplaceAllFunc(raw, func(text []byte) []byte {
		m := share.FindSubmatch(text)
		percent, _ := strconv.ParseInt(string(m[1]), 10, 64) // digits
		q := allocatable[v1.ResourceName(m[2])]
		if string(m[2]) == "cpu" {
			return fmt.Appendf(nil, `"%dm"`, q.MilliValue()*percent/100)
		}
		return fmt.Appendf(nil, `"%dMi"`, q.Value()/(1<<20)*percent/100)
	})
}

// bound sets spec.nodeName of every Pod of a step.
func bound(raw json.RawMessage, node string) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	var list []map[string]any
	one := !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("["))
	if one {
		raw = slices.Concat([]byte("["), raw, []byte("]"))
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, o := range list {
		if spec, ok := o["spec"].(map[string]any); ok && o["kind"] == "Pod" && spec["nodeName"] == nil {
			spec["nodeName"] = node
		}
	}
	return json.Marshal(list)
}

// inNamespace sets the namespace of a static Pod.
func inNamespace(raw json.RawMessage, namespace string) (json.RawMessage, error) {
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		meta["namespace"] = namespace
	}
	return json.Marshal(o)
}
