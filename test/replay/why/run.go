package why

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Options say how fixtures are run.
type Options struct {
	Binary   string
	Number   int // tells worlds on one machine apart
	Remedies int // printed remedies to try, each in a fresh world; 0 leaves the remedy point out
}

// Run sets a fixture up, asks, judges, and tries the printed remedies in order until one helps.
func Run(ctx context.Context, o Options, f Fixture) Score {
	s, err := ask(ctx, o, f)
	if err != nil {
		return Score{Name: f.Name, Err: err}
	}
	for i, fix := range s.Answer.Fixes {
		if i >= o.Remedies || s.Remedy {
			break
		}
		if len(fix.Run) == 0 && fix.Config == "" {
			s.Tried = append(s.Tried, "no command: "+fix.Say)
			continue
		}
		if err := try(ctx, o, f, fix); err != nil {
			s.Tried = append(s.Tried, fmt.Sprintf("did not help: %s: %v", fix.Say, err))
			continue
		}
		s.Tried, s.Remedy = append(s.Tried, "helped: "+fix.Say), true
	}
	return s
}

func ask(ctx context.Context, o Options, f Fixture) (s Score, err error) {
	w, err := Open(ctx, o.Binary, o.Number, f)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Run(ctx, f.Setup); err != nil {
		return s, fmt.Errorf("%w\n%s", err, tail(w.Output("up")))
	}
	a, err := w.Ask(ctx)
	if err != nil {
		return s, err
	}
	return Judge(f, a)
}

// try applies one remedy, exactly as printed, to a fresh world.
func try(ctx context.Context, o Options, f Fixture, fix Fix) (err error) {
	w, err := Open(ctx, o.Binary, o.Number, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Run(ctx, f.Setup); err != nil {
		return err
	}
	if fix.Config != "" {
		var c map[string]any
		if err := yaml.Unmarshal([]byte(fix.Config), &c); err != nil {
			return err
		}
		if err := w.configure(Step{Component: "scheduler", Config: c}); err != nil {
			return err
		}
	}
	for _, line := range fix.Run {
		if out, err := w.Shell(ctx, line); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(out))
		}
	}
	r := f.Expected.ResolvedWhen
	if r == nil {
		return nil
	}
	return w.wait(ctx, r.Object, r.Until, r.Within)
}
