package breaker

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/gather"
	testimages "github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/up"
)

const (
	realAtOnce   = 10              // situations side by side
	realPatience = 2 * time.Minute // until a break has shown itself
	realSteady   = 3               // further answers to the same question, which have to be as good
	realPause    = 2 * time.Second // between them
)

// realQuick are the kinds, by parts of their names, that `make test` plays.
const realQuick = "real: exit code|real: program that is not|real: probe: port where|real: slow start with"

// leastRealPercent of the points has to be reached.
const leastRealPercent = 90

// As TestTheBreakIsNamed, with containers, probes, volumes, networks and registries that are real:
// a `gantry up` of its own. GANTRY_REAL plays all kinds, with the seeds of GANTRY_SEED and
// GANTRY_SEEDS; GANTRY_TEXT prints every answer. With GANTRY_REMEDIES the commands of the remedies
// are run on the same break in another namespace, and have to mend it.
func TestTheRealBreakIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs real containers")
	}
	b := startReal(t)
	r, seed, seeds := newTotals(), number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	for s := seed; s < seed+seeds; s++ {
		b.playAll(t, r, s)
	}
	r.report(t, leastRealPercent)
}

// realBreaker plays kinds with real containers.
type realBreaker struct {
	*breaker
	registries realRegistries
}

// startReal starts `gantry up`, the registries and the images.
func startReal(t *testing.T) *realBreaker {
	c := up.New(t, "gxw", "--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "",
		"--scheduler-port", fmt.Sprint(up.FreePort(t)), "--service-cluster-ip-range", "10.173.0.0/16")
	c.Start()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	t.Cleanup(func() { _ = os.RemoveAll("/tmp/gantry-breaker") }) // of the kinds with hostPath
	b := &realBreaker{breaker: &breaker{kubeconfig: c.Kubeconfig}, registries: serveRegistries(t)}
	if _, err := exec.LookPath("kubectl"); err != nil {
		b.programs = t.TempDir()
		if err := os.Symlink(filepath.Join(c.Bin, "gantry"), filepath.Join(b.programs, "kubectl")); err != nil {
			t.Fatal(err)
		}
	}
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if b.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(disco)
	if err != nil {
		t.Fatal(err)
	}
	b.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := testimages.Archive(archive, realImages()); err != nil {
		t.Fatal(err)
	}
	c.Gantry("image", "import", "--data-dir", c.Dir, archive)
	return b
}

// realImages are those that the node has from the beginning.
func realImages() map[string]testimages.Make {
	return map[string]testimages.Make{realApp: realAppImage,
		realServer: testimages.WithName(realServer, testimages.Agnhost),
		realWeb:    testimages.WithName(realWeb, testimages.Httpd)}
}

// realAppImage is Busybox with programs that cannot run: one that may not be executed, one of
// another machine, and one whose interpreter the image does not have.
func realAppImage() (v1.Image, error) {
	img, err := testimages.Busybox()
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	foreign := make([]byte, 128) // the head of a 64-bit program for s390
	copy(foreign, "\x7fELF\x02\x02\x01")
	copy(foreign[16:], "\x00\x02\x00\x16\x00\x00\x00\x01")
	if img, err = testimages.WithLayer(img, []testimages.File{
		{Path: "srv/", Mode: os.ModeDir | 0o755},
		{Path: "srv/plain", Mode: 0o644, Body: []byte("#!/bin/sh\nsleep 3600\n")},
		{Path: "srv/foreign", Mode: 0o755, Body: foreign},
		{Path: "srv/script", Mode: 0o755, Body: []byte("#!/usr/bin/python3\nprint(1)\n")},
	}); err != nil {
		return nil, err
	}
	return testimages.WithConfig(img, *file.Config.DeepCopy())
}

// serveRegistries starts a registry for all and one for realUser, each with an image tool:1.
func serveRegistries(t *testing.T) realRegistries {
	t.Helper()
	var locked atomic.Bool
	private := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, pass, _ := r.BasicAuth(); locked.Load() && (user != realUser || pass != realPassword) {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`,
					http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	var addrs []string
	for i, wrap := range []func(http.Handler) http.Handler{nil, private} {
		reg, err := testimages.Serve(wrap)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reg.Close() })
		tool := testimages.WithName(fmt.Sprint("tool of registry ", i), testimages.Busybox)
		if err := reg.Push("team/tool:1", tool); err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, reg.Addr)
	}
	locked.Store(true)
	return realRegistries{open: addrs[0], private: addrs[1]}
}

// playAll plays the kinds with the words of a seed, several at once.
func (b *realBreaker) playAll(t *testing.T, r *totals, seed int) {
	only, all := os.Getenv("GANTRY_ONLY"), os.Getenv("GANTRY_REAL") != ""
	var wait sync.WaitGroup
	free := make(chan struct{}, realAtOnce)
	for i, k := range realKinds() {
		if !all && only == "" && !inField(k.name, realQuick) || !inField(k.name, only) {
			continue
		}
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			b.play(t, r, k, int64(seed*1000+i), fmt.Sprintf("r%d-%d", seed, i))
		})
	}
	wait.Wait()
}

// play sets one situation up and asks each of its questions until the answer has all points, and
// some more times: the answer has to stay as good while containers come and go.
func (b *realBreaker) play(t *testing.T, r *totals, k kind, seed int64, namespace string) {
	w := realWords(rand.New(rand.NewSource(seed)), b.registries)
	w["$NS"] = namespace
	var all []truth
	for _, t := range k.truth {
		all = append(all, w.inTruth(t))
	}
	asks := strings.Fields(w.in(k.ask))
	defer b.remove(namespace)
	if err := b.setUpReal(t.Context(), k, w, namespace); err != nil {
		for _, ask := range asks {
			r.add(k.name+" <- "+ask, points{missed: []string{"set-up: " + err.Error()}}, "")
		}
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), realPatience)
	defer cancel()
	told, texts := make([]points, len(asks)), make([]string, len(asks))
	for i, ask := range asks { // before any remedy, which may change the node for all
		told[i], texts[i] = b.asked(ctx, namespace, ask, all)
	}
	for i, ask := range asks {
		p, text := told[i], texts[i]
		if os.Getenv("GANTRY_REMEDIES") != "" && len(all) > 0 && ask != "." && p.sum() == 4 {
			failed := b.remediesFail(t.Context(), realTried{k, w, namespace, ask, all})
			p.remedy, p.missed = len(failed) == 0, append(p.missed, failed...)
		}
		kindOf, _, _ := strings.Cut(ask, "/")
		r.add(k.name+" <- "+kindOf, p, text)
		if os.Getenv("GANTRY_TEXT") != "" {
			t.Logf("%s <- %s\n%s", k.name, ask, text)
		}
	}
}

// asked asks one question until the answer has all points or ctx ends, then some more times, and
// returns the worst of these. Of healthy things every answer counts, from the first on.
func (b *realBreaker) asked(ctx context.Context, namespace, ask string, all []truth) (points, string) {
	p, text := b.score(namespace, ask, all)
	for len(all) > 0 && p.sum() < 4 && realWait(ctx, time.Second) {
		p, text = b.score(namespace, ask, all)
	}
	steady := realSteady
	if os.Getenv("GANTRY_REAL") == "" {
		steady = 1
	}
	for n := 0; n < steady && p.sum() == 4 && realWait(ctx, realPause); n++ {
		p, text = b.score(namespace, ask, all)
	}
	return p, text
}

// realWait waits; false when ctx has ended.
func realWait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// score asks once.
func (b *realBreaker) score(namespace, ask string, all []truth) (points, string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	now := time.Now()
	var text strings.Builder
	var a explain.Answer
	var err error
	if ask == "." {
		o, err2 := gather.Overview(ctx, b.client, namespace)
		a, err = explain.Answer{State: o.Scope}, err2
		for _, root := range o.Causes {
			a.Findings = append(a.Findings, root.Finding)
		}
		_ = o.WriteText(&text, now)
	} else if a, err = gather.AnswerWith(ctx, b.client, gather.Question{Namespace: namespace, About: ask,
		Now: now}); err == nil {
		_ = a.WriteText(&text, now)
	}
	if err != nil {
		return points{missed: []string{"question: " + err.Error()}}, ""
	}
	if ask == "." { // what is a note there, the text does not tell
		a.Findings = slices.DeleteFunc(a.Findings, func(f finding.Finding) bool { return f.Severity == finding.Note })
	}
	for _, f := range a.Findings {
		fmt.Fprintf(&text, "# %v %s %s %s=%q want %q %v\n", f.Severity, f.Code, f.Object, f.Field, f.Value, f.Want,
			f.Numbers)
	}
	return score(a, all), text.String()
}

// setUpReal makes a namespace with its service account, and a kind's objects.
func (b *realBreaker) setUpReal(ctx context.Context, k kind, w words, namespace string) error {
	_, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, realPatience)
	defer cancel()
	for {
		_, err := b.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			break
		}
		if !errors.IsNotFound(err) || !realWait(ready, 200*time.Millisecond) {
			return err
		}
	}
	if err := b.apply(ctx, namespace, w.in(k.manifest)); err != nil {
		return err
	}
	if err := b.deletedRun(ready, namespace, w.in(k.after)); err != nil {
		return err
	}
	return b.changeAll(ctx, namespace, w.in(k.after))
}

// deletedRun waits until the Pods run that a kind's changes delete: one without a node is gone at
// once, whatever its grace period.
func (b *realBreaker) deletedRun(ctx context.Context, namespace, changes string) error {
	for line := range strings.Lines(changes) {
		target, change, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, ok := strings.CutPrefix(target, "pod/")
		if !ok || change != "delete" {
			continue
		}
		for {
			p, err := b.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.Status.Phase == corev1.PodRunning {
				break
			}
			if !realWait(ctx, 200*time.Millisecond) {
				return fmt.Errorf("%s is %s, want it to run before it is deleted", target, p.Status.Phase)
			}
		}
	}
	return nil
}

// realTried is a break whose remedies are tried.
type realTried struct {
	kind      kind
	words     words
	namespace string
	ask       string
	truths    []truth
}

// realRemedyTime is how long a remedy may take to show.
const realRemedyTime = 90 * time.Second

// remediesFail plays a break anew for each remedy with commands, runs these as a person would, and
// returns those after which all that was wrong is told as before.
func (b *realBreaker) remediesFail(ctx context.Context, x realTried) (failed []string) {
	a, err := gather.AnswerWith(ctx, b.client, gather.Question{Namespace: x.namespace, About: x.ask, Now: time.Now()})
	if err != nil {
		return []string{err.Error()}
	}
	for i, r := range commandsOf(a, x.truths) {
		if strings.HasPrefix(r.Say, "or, if ") {
			continue // it is for another case
		}
		for n := range r.Run { // what a person has to fill in
			r.Run[n] = strings.NewReplacer("=USER ", "="+realUser+" ", "=PASSWORD", "="+realPassword).Replace(r.Run[n])
		}
		fresh := fmt.Sprintf("%s-r%d", x.namespace, i)
		w := maps.Clone(x.words)
		w["$NS"] = fresh
		var truths []truth
		for _, t := range x.kind.truth {
			truths = append(truths, w.inTruth(t))
		}
		if err := b.setUpReal(ctx, x.kind, w, fresh); err != nil {
			failed = append(failed, fmt.Sprintf("%q: set-up: %v", r.Say, err))
		} else if why := b.remedyFails(ctx, r, fresh, realTried{x.kind, w, x.namespace, x.ask, truths}); why != "" {
			failed = append(failed, fmt.Sprintf("%q does not mend it: %s", r.Say, why))
		}
		b.remove(fresh)
	}
	return failed
}

// remedyFails waits for the break in a fresh namespace, runs a remedy there and waits until less is
// wrong and nothing else is; empty when that came.
func (b *realBreaker) remedyFails(ctx context.Context, r finding.Remedy, fresh string, x realTried) string {
	told := func(good func(explain.Answer) bool) (last explain.Answer, ok bool) {
		ctx, cancel := context.WithTimeout(ctx, realRemedyTime)
		defer cancel()
		for {
			a, err := gather.AnswerWith(ctx, b.client, gather.Question{Namespace: fresh, About: x.ask,
				Now: time.Now()})
			if err == nil && good(a) {
				return a, true
			}
			if last = a; !realWait(ctx, time.Second) {
				return last, false
			}
		}
	}
	before, ok := told(func(a explain.Answer) bool { return namedTruths(a, x.truths) == len(x.truths) })
	if !ok {
		return "the break did not show again: " + before.State + ": " + before.Cause
	}
	if out, err := b.run(ctx, r.Run, x.namespace, fresh); err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	after, ok := told(func(a explain.Answer) bool {
		newly := slices.DeleteFunc(newlyBroken(before, a), func(code string) bool {
			return code == "NotScaling" // nothing serves metrics here
		})
		if a.State == "Ready" { // a truth may be worth a note still
			a.Findings = slices.DeleteFunc(slices.Clone(a.Findings), func(f finding.Finding) bool {
				return f.Severity == finding.Note
			})
		}
		return namedTruths(a, x.truths) < len(x.truths) && len(newly) == 0
	})
	if ok {
		return ""
	}
	return fmt.Sprintf("%s: %s; newly %v", after.State, after.Cause, newlyBroken(before, after))
}
