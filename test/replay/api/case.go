// Package api replays the recorded API requests of test/recordings/api against a server and scores
// the answers.
package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// Request is one recorded request.
type Request struct {
	Method      string             `json:"method"`
	Path        string             `json:"path"`
	Headers     map[string]*string `json:"headers"`
	Body        json.RawMessage    `json:"body"`
	BodyText    *string            `json:"bodyText"`
	BodyBase64  *string            `json:"bodyBase64"`
	BodyRepeat  *Repeat            `json:"bodyRepeat"`
	WaitSeconds float64            `json:"waitSeconds"`
	Capture     map[string]string  `json:"capture"`
	DecodeToken string             `json:"decodeToken"`
	As          string             `json:"as"`
}

// Repeat is a body too large to write out: prefix + unit × count + suffix.
type Repeat struct {
	Prefix, Unit, Suffix string
	Count                int
}

// Response is one recorded answer.
type Response struct {
	Code          int            `json:"code"`
	Headers       map[string]any `json:"headers"`
	Body          any            `json:"body"`
	BodyLines     []any          `json:"bodyLines"`
	BodyText      *string        `json:"bodyText"`
	BodyPrefixHex string         `json:"bodyPrefixHex"`
	DecodedToken  map[string]any `json:"decodedToken"`
}

// Exchange is a request with its recorded answer.
type Exchange struct {
	Request  Request  `json:"request"`
	Response Response `json:"response"`
}

// Case is one self-contained case.
type Case struct {
	Name          string     `json:"name"`
	Kind          string     `json:"kind"`
	As            string     `json:"as"`
	ManagedFields string     `json:"managedFields"`
	Setup         []Request  `json:"setup"`
	Request       Request    `json:"request"`
	Response      Response   `json:"response"`
	Then          []Exchange `json:"then"`
}

// Family is one file of cases.
type Family struct {
	Name  string // "updates/pod-eviction"
	Cases []Case `json:"cases"`
}

// Load reads the prelude and every family below dir, sorted by name.
func Load(dir string) (prelude []Request, families []Family, err error) {
	if err := read(filepath.Join(dir, "prelude.json"), &prelude); err != nil {
		return nil, nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	if err != nil {
		return nil, nil, err
	}
	sort.Strings(files)
	for _, path := range files {
		f := Family{Name: filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path[:len(path)-len(".json")])}
		if err := read(path, &f); err != nil {
			return nil, nil, err
		}
		families = append(families, f)
	}
	if len(families) == 0 {
		return nil, nil, fmt.Errorf("%s holds no recordings", dir)
	}
	return prelude, families, nil
}

func read(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
