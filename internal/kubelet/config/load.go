package config

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

//go:embed preset/*.yaml
var presets embed.FS

// Presets are the names of the settings that ship with Gantry.
func Presets() []string {
	entries, err := presets.ReadDir("preset")
	if err != nil {
		return nil // the directory is part of the binary
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}

// Sources say where the configuration comes from. Every field may be empty.
type Sources struct {
	Own    *kubelet.KubeletConfiguration // what the instance prefers to upstream's defaults; the lowest layer
	Preset string                        // see Presets
	File   string                        // --config
	Dir    string                        // --config-dir
	Flags  *Flags
}

// Loaded is the configuration in force.
type Loaded struct {
	Config *kubelet.KubeletConfiguration // complete: every default is filled in
	Gates  Gates
	Inert  []string // fields and gates that are set to something that has no effect yet, as JSON paths
	// nobody set evictionHard: Config has upstream's defaults
	DefaultEvictionHard bool
}

// Load reads and merges the layers, completes and checks the result.
func Load(s Sources) (*Loaded, error) {
	merged, err := encodeOwn(s.Own)
	if err != nil {
		return nil, err
	}
	if s.Preset != "" {
		if merged, err = s.preset(merged); err != nil {
			return nil, err
		}
	}
	if s.File != "" {
		if merged, err = layer(merged, s.File); err != nil {
			return nil, fmt.Errorf("failed to load Kubelet config file %s, error: %w", s.File, err)
		}
	}
	if s.Dir != "" {
		if merged, err = dropIns(merged, s.Dir); err != nil {
			return nil, fmt.Errorf("failed to merge kubelet configs: %w", err)
		}
	}
	if merged, err = s.Flags.applyTo(merged); err != nil {
		return nil, err
	}
	c, err := decode(merged)
	if err != nil {
		return nil, err
	}
	gates, err := ResolveGates(c.FeatureGates)
	if err != nil {
		return nil, fmt.Errorf("featureGates: %w", err)
	}
	unset := c.EvictionHard == nil
	Complete(c, gates)
	if err := Validate(c, gates); err != nil {
		return nil, err
	}
	return &Loaded{Config: c, Gates: gates, Inert: inertSettings(c, gates), DefaultEvictionHard: unset}, nil
}

// SwitchOn switches a gate on that the configuration says nothing of.
func (l *Loaded) SwitchOn(gate string) {
	if _, given := l.Config.FeatureGates[gate]; given {
		return
	}
	on := maps.Clone(l.Config.FeatureGates)
	if on == nil {
		on = map[string]bool{}
	}
	on[gate] = true
	l.Config.FeatureGates = on
}

// encodeOwn is the lowest layer, and says the kind.
func encodeOwn(c *kubelet.KubeletConfiguration) ([]byte, error) {
	if c == nil {
		c = &kubelet.KubeletConfiguration{}
	}
	c = c.DeepCopy()
	c.SetGroupVersionKind(kubelet.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("own configuration: %w", err)
	}
	return raw, nil
}

func (s Sources) preset(onto []byte) ([]byte, error) {
	raw, err := presets.ReadFile("preset/" + s.Preset + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no preset %q; there are %s", s.Preset, strings.Join(Presets(), ", "))
	}
	return merge(onto, raw)
}

func layer(onto []byte, path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubelet config file %q, error: %w", path, err)
	}
	return merge(onto, raw)
}

// dropIns merges the *.conf files below dir in the lexical order of their paths.
func dropIns(onto []byte, dir string) ([]byte, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && filepath.Ext(d.Name()) == ".conf" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("failed to walk through kubelet dropin directory %q: %w", dir, err)
	}
	slices.Sort(files)
	for _, f := range files {
		if onto, err = layer(onto, f); err != nil {
			return nil, fmt.Errorf("failed to load kubelet dropin file, path: %s, error: %w", f, err)
		}
	}
	return onto, nil
}

// merge puts a document over what there is: maps key by key, null takes away, lists and values
// replace. The document alone must be right.
func merge(onto, document []byte) ([]byte, error) {
	if len(strings.TrimSpace(string(document))) == 0 {
		return nil, errors.New("kubelet config file is empty")
	}
	if _, err := decode(document); err != nil {
		return nil, err
	}
	patch, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergePatch(onto, patch)
}

// decode reads strictly: a field that is not known or stands twice is an error that names it.
func decode(document []byte) (*kubelet.KubeletConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := kubelet.AddToScheme(scheme); err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, gvk, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to decode: %w", err)
	}
	c, ok := obj.(*kubelet.KubeletConfiguration)
	if !ok {
		return nil, fmt.Errorf("failed to cast object to KubeletConfiguration, unexpected type: %v", gvk)
	}
	return c, nil
}
