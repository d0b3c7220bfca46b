package podactions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// maxEnvFile bounds the file of a fileKeyRef.
const maxEnvFile = 64 << 10

// fileKey reads a variable from a file in one of the Pod's volumes, which containers may have
// written: symbolic links do not lead out of the volume.
func (c *operation) fileKey(r *v1.FileKeySelector) (value string, ok bool, err error) {
	m, ready := c.state.mounted[r.VolumeName]
	if !ready || m.Path == "" {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", r.VolumeName)
	}
	root, err := os.OpenRoot(m.Path)
	if err != nil {
		return "", false, fmt.Errorf("volume %q: %w", r.VolumeName, err)
	}
	defer root.Close()
	f, err := root.Open(r.Path)
	if errors.Is(err, fs.ErrNotExist) && deref(r.Optional) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file: %w", err)
	}
	defer f.Close()
	vars, err := parseEnvFile(io.LimitReader(f, maxEnvFile))
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file: %w", err)
	}
	value, ok = vars[r.Key]
	if !ok && !deref(r.Optional) {
		return "", false, fmt.Errorf("environment variable key %q not found in file", r.Key)
	}
	return value, ok, nil
}

// parseEnvFile reads lines KEY='value'; values stand in single quotes and may span lines, # begins
// a comment line.
func parseEnvFile(r io.Reader) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || !strings.HasPrefix(value, "'") {
			return nil, fmt.Errorf("invalid format on line %d: a variable is written KEY='value'", n)
		}
		value = value[1:]
		for !strings.Contains(value, "'") {
			if !lines.Scan() {
				return nil, fmt.Errorf("invalid format on line %d: the quote is not closed", n)
			}
			n++
			value += "\n" + lines.Text()
		}
		text, rest, _ := strings.Cut(value, "'")
		if rest = strings.TrimSpace(rest); rest != "" && !strings.HasPrefix(rest, "#") {
			return nil, fmt.Errorf("invalid format on line %d: unexpected text after the closing quote", n)
		}
		out[strings.TrimSpace(key)] = text
	}
	return out, lines.Err()
}
