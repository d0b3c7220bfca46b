package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Changed returns the text of each file that the mutation changes, by its path from root. A text to
// find that is not in its file, or is there more than once, is an error that names the row.
func (m Mutation) Changed(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range m.Edits() {
		text, ok := texts[e.File]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.ID(), err)
			}
			text = string(raw)
		}
		switch n := strings.Count(text, e.Find); n {
		case 1:
			texts[e.File] = strings.Replace(text, e.Find, e.Put, 1)
		case 0:
			return nil, fmt.Errorf("%s: %s no longer has the text %q: say what breaks the row now", m.ID(), e.File,
				e.Find)
		default:
			return nil, fmt.Errorf("%s: %s has the text %q %d times: give more of it", m.ID(), e.File, e.Find, n)
		}
	}
	return texts, nil
}

// overlay writes the changed files to dir, and the file for the go command's -overlay, whose path
// it returns.
func (m Mutation) overlay(root, dir string) (string, error) {
	texts, err := m.Changed(root)
	if err != nil {
		return "", err
	}
	return writeOverlay(root, dir, texts)
}

// writeOverlay does so for the texts of files by their path from root.
func writeOverlay(root, dir string, texts map[string]string) (string, error) {
	replace := map[string]string{}
	for file, text := range texts {
		copied := filepath.Join(dir, strconv.Itoa(len(replace))+"_"+filepath.Base(file))
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = copied
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, raw, 0o644)
}
