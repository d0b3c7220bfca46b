package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Options say how fixtures are run.
type Options struct {
	Binary   string
	Number   int  // distinguishes clusters on one machine
	Remedies int  // printed remedies to try, each in a fresh cluster; 0 leaves the remedy point out
	Every    bool // try them all, not only until one helps
}

// Run sets a fixture up, asks, scores, and tries the printed remedies in order until one helps.
func Run(ctx context.Context, o Options, f Fixture) Score {
	if err := f.check(); err != nil {
		return Score{Name: f.Name, Err: fmt.Errorf("%w: %w", ErrFixture, err)}
	}
	s, err := evaluateQuestion(ctx, o, f)
	if err != nil {
		return Score{Name: f.Name, Err: err}
	}
	for i, fix := range s.Answer.Fixes {
		if i >= o.Remedies || s.Remedy && !o.Every {
			break
		}
		if len(fix.Run) == 0 && fix.Config == "" && fix.Amend == nil {
			s.Tried = append(s.Tried, "no command: "+fix.Description)
			continue
		}
		if fix.isDiagnostic() {
			s.Tried = append(s.Tried, "changes nothing: "+fix.Description)
			continue
		}
		if err := tryFix(ctx, o, f, fix); err != nil {
			s.Tried = append(s.Tried, fmt.Sprintf("did not help: %s: %v", fix.Description, err))
			if fix.Proven {
				s.Ineffective = append(s.Ineffective, fix.Description)
			}
			continue
		}
		s.Tried, s.Remedy = append(s.Tried, "helped: "+fix.Description), true
	}
	return s
}

// diagnosticCommand matches commands that read only: what is well after them became so by itself.
var diagnosticCommand = regexp.MustCompile(
	`^(kubectl( -n \S+)? (logs|get|describe|events|auth|explain)|gantry (why|trace|doctor|lint)) [^|]*$`)

// isDiagnostic reports whether all commands of a fix read only.
func (f Fix) isDiagnostic() bool {
	return len(f.Run) > 0 && f.Config == "" && f.Amend == nil &&
		!slices.ContainsFunc(f.Run, func(line string) bool { return !diagnosticCommand.MatchString(line) })
}

// maxAttempts is how often a set-up is played that does not come about: who of several equals comes
// first is chance, and such a run is void, not failed.
const maxAttempts = 3

// prepared runs the set-up in a cluster until it comes about; the caller closes the cluster, which
// is nil with an error.
func prepared(ctx context.Context, o Options, f Fixture) (*Cluster, error) {
	for n := 1; ; n++ {
		w, err := Open(ctx, o.Binary, o.Number, f)
		if err != nil {
			return nil, err
		}
		if err = w.Run(ctx, f.Setup); err == nil {
			return w, nil
		}
		err = errors.Join(fmt.Errorf("%w\n%s", err, lastLines(w.Output("up"))), w.Close())
		if n == maxAttempts || ctx.Err() != nil || !errors.Is(err, ErrFixture) || errors.Is(err, errSetupFailed) {
			return nil, err
		}
	}
}

func evaluateQuestion(ctx context.Context, o Options, f Fixture) (s Score, err error) {
	w, err := prepared(ctx, o, f)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	a, err := w.Explain(ctx)
	if err != nil {
		return s, err
	}
	return Evaluate(f, a)
}

// tryFix applies one remedy, exactly as printed, to a fresh cluster.
func tryFix(ctx context.Context, o Options, f Fixture, fix Fix) (err error) {
	if fix.Amend != nil {
		w, err := Open(ctx, o.Binary, o.Number, f)
		if err != nil {
			return err
		}
		return errors.Join(w.reset(ctx, fix), w.Close())
	}
	w, err := prepared(ctx, o, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
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

// reset plays a remedy for what is past: the manifest is another one from the beginning, and the
// set-up goes on to the first wait that can no longer come true.
func (w *Cluster) reset(ctx context.Context, fix Fix) error {
	var patch any
	if err := json.Unmarshal([]byte(fix.Amend.Patch), &patch); err != nil {
		return err
	}
	m, err := w.manifest(fix.Amend.Object)
	if err != nil {
		return err
	}
	edited, err := w.edited(ctx, m, Step{Type: fix.Amend.Type, Patch: patch})
	if err != nil {
		return err
	}
	w.f.Manifests = slices.Clone(w.f.Manifests)
	for i := range w.f.Manifests {
		if idOf(w.f.Manifests[i]) == idOf(m) {
			w.f.Manifests[i] = edited
		}
	}
	for _, s := range w.f.Setup {
		if err := w.step(ctx, s); err != nil && !(s.Do == "wait" && errors.Is(err, ErrFixture)) {
			return err
		} else if err != nil {
			break
		}
	}
	r := w.f.Expected.ResolvedWhen
	return w.wait(ctx, r.Object, r.Until, r.Within)
}
