package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed scripts/*.yaml
var scriptFiles embed.FS

// step is one request of a script.
type step struct {
	Do      string            `json:"do"` // METHOD PATH; PATCH of a kind: JSON, MERGE, STRATEGIC, APPLY
	As      string            `json:"as"` // user[,group…]: impersonated
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"`
	Text    string            `json:"text"`   // body as it stands
	Keep    map[string]string `json:"keep"`   // name: dotted path in the answer; ${name} later
	Silent  bool              `json:"silent"` // only prepares: the answer is not compared
	// repeated until it has this code, for some seconds: for what a server learns by watching
	Until int `json:"until"`
}

var patchTypes = map[string]string{
	"JSON": "application/json-patch+json", "MERGE": "application/merge-patch+json",
	"STRATEGIC": "application/strategic-merge-patch+json", "APPLY": "application/apply-patch+yaml",
}

// most is how much of an answer is printed.
const most = 3000

func runScripts(ctx context.Context, o options, p *pair, found *findings) error {
	scripts, err := fs.Sub(scriptFiles, "scripts")
	if err != nil {
		return err
	}
	if o.scripts != "" {
		scripts = os.DirFS(o.scripts)
	}
	files, err := fs.Glob(scripts, "*.yaml")
	if err != nil {
		return err
	}
	for _, f := range files {
		name := strings.TrimSuffix(f, ".yaml")
		if !o.only.MatchString(name) {
			continue
		}
		raw, err := fs.ReadFile(scripts, f)
		if err != nil {
			return err
		}
		var steps []step
		if err := yaml.UnmarshalStrict(raw, &steps); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		ours, theirs := map[string]string{}, map[string]string{}
		for i, s := range steps {
			a, err := s.sendUntil(ctx, p.gantry, ours)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, s.Do, err)
			}
			b, err := s.sendUntil(ctx, p.reference, theirs)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, s.Do, err)
			}
			if s.Silent {
				continue
			}
			causes := differences(a, b)
			for k := range causes {
				causes[k] = fmt.Sprintf("%s %d %s: %s", name, i, s.Do, causes[k])
			}
			found.add(causes, first(s.body(), 900)+"\n        ours   "+first(string(a.body),
				most)+"\n        theirs "+first(string(b.body), most), nil)
		}
	}
	return nil
}

func (s *step) body() string {
	if s.Text != "" || s.Body == nil {
		return s.Text
	}
	raw, err := json.Marshal(s.Body)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// settleTimeout is how long a server may take to see what was written to it.
const settleTimeout = 10 * time.Second

func (s *step) sendUntil(ctx context.Context, to *server, vars map[string]string) (answer, error) {
	for end := time.Now().Add(settleTimeout); ; {
		a, err := s.send(ctx, to, vars)
		if err != nil || s.Until == 0 || a.code == s.Until || time.Now().After(end) {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *step) send(ctx context.Context, to *server, vars map[string]string) (answer, error) {
	fill := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(m string) string {
			if v, ok := vars[m[2:len(m)-1]]; ok {
				return v
			}
			return m
		})
	}
	method, path, _ := strings.Cut(fill(s.Do), " ")
	r := request{Method: method, Path: path, Headers: map[string]string{}, Body: fill(s.body())}
	if t := patchTypes[method]; t != "" {
		r.Method, r.Headers["Content-Type"] = "PATCH", t
	}
	if s.As != "" {
		user, groups, _ := strings.Cut(s.As, ",")
		r.Headers["Impersonate-User"] = user
		if groups != "" {
			r.Headers["Impersonate-Group"] = groups
		}
	}
	for k, v := range s.Headers {
		r.Headers[k] = fill(v)
	}
	a, err := to.send(ctx, r)
	if err != nil {
		return a, err
	}
	var v any
	if json.Unmarshal(a.body, &v) == nil {
		for name, at := range s.Keep {
			vars[name] = fmt.Sprint(dig(v, at))
		}
	}
	return a, nil
}

func dig(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}
