package volume

import (
	"fmt"
	"maps"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// File is one file of a volume made from API objects.
type File struct {
	Data []byte
	Mode int32  // permission bits
	User *int64 // owner; nil is root
}

// Payload is the files of a volume by their path in it.
type Payload map[string]File

// Source says which keys of an object become files.
type Source struct {
	Name     string         // of the object
	Items    []v1.KeyToPath // none is all keys
	Mode     int32          // of files whose item has none: the volume's defaultMode
	Optional bool           // an object or a key that is not there gives no file
}

// Keys turns an object's data into files. missing words the error for an item that names no key.
func (s Source) Keys(data map[string][]byte, missing string) (Payload, error) {
	p := Payload{}
	if len(s.Items) == 0 {
		for name, content := range data {
			p[name] = File{Data: content, Mode: s.Mode}
		}
		return p, nil
	}
	for _, item := range s.Items {
		content, ok := data[item.Key]
		if !ok {
			if s.Optional {
				continue
			}
			return nil, fmt.Errorf("%s: %s", missing, item.Key)
		}
		f := File{Data: content, Mode: s.Mode}
		if item.Mode != nil {
			f.Mode = *item.Mode
		}
		p[item.Path] = f
	}
	return p, nil
}

// Upstream's words for an item that names no key.
const (
	MissingConfigKey = "configmap references non-existent config key"
	MissingSecretKey = "references non-existent secret key"
)

// ConfigData is a ConfigMap's text and binary data in one.
func ConfigData(c *v1.ConfigMap) map[string][]byte {
	data := maps.Clone(c.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for k, s := range c.Data {
		data[k] = []byte(s)
	}
	return data
}

// Check refuses paths that would lead out of the volume or into the writer's own names, which begin
// with two dots.
func (p Payload) Check() error {
	for name := range p {
		switch {
		case name == "" || path.IsAbs(name):
			return fmt.Errorf("invalid path %q: it must be relative and not empty", name)
		case path.Clean(name) != name || strings.HasPrefix(name, ".."):
			return fmt.Errorf("invalid path %q: it must not contain %q nor begin with it", name, "..")
		}
	}
	return nil
}
