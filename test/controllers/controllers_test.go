package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/control"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/testcluster"
)

// row is one controller at work.
type row struct {
	name   string   // of control.All
	with   []string // controllers beside it, which nothing befalls
	steps  []step
	event  string // that says that a write was refused; empty: upstream says it nowhere
	silent bool   // it writes nothing but events
	sole   string // path of the only object of the cluster that it makes: one instance at a time
	set    func(*controllerruntime.ControllerContext)
	// gates are the features of the cluster
	gates features.Features
	leave []fate // that its writes cannot have, for the reason in the row
}

// step is what clients do, and what the API holds some time after.
type step struct {
	do   func(*instance)
	want func(*instance) error
}

// patience is how long the controller may take for a step in all instances.
const patience = time.Minute

// fates of the instances that a controller lives through; killed is apart, since all instances of a
// controller that is killed are killed.
var fates = []fate{undisturbed, touched, lost, forbidden, conflict, internal, unavailable, timeout}

func TestEveryControllerHasARow(t *testing.T) {
	t.Parallel()
	for _, c := range control.All {
		n := 0
		for _, r := range rows {
			if r.name == c.Name {
				n++
			}
		}
		if n != 1 {
			t.Errorf("controller %s of control.All has %d rows, want 1", c.Name, n)
		}
	}
	if len(rows) != len(control.All) {
		t.Errorf("%d rows, want one for each of %d controllers", len(rows), len(control.All))
	}
}

// Every controller comes to the same state whatever befalls its writes.
func TestControllersWithRefusedWrites(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			c := testcluster.Start(t, testcluster.WithNodes(), testcluster.WithFeatures(r.gates))
			c.KillControllers()
			l := &room{TB: t, ctx: ctx, c: c, row: r}
			with := append([]string{}, r.with...)
			if r.name != "serviceaccount" {
				with = append(with, "serviceaccount")
			}
			if len(with) > 0 { // without names all run
				defer l.run(with, nil)()
			}
			together := slices.DeleteFunc(slices.Clone(fates), func(f fate) bool { return slices.Contains(r.leave, f) })
			if r.sole == "" && !r.silent {
				l.live(together...)
				l.live(killed)
				return
			}
			if r.silent {
				l.live(undisturbed)
				return
			}
			for _, f := range append(together, killed) {
				l.live(f)
			}
		})
	}
}

// room is a cluster in which a row's controller works.
type room struct {
	testing.TB
	ctx       context.Context
	c         *testcluster.Cluster
	row       row
	instances int // so far
}

// live runs the controller through the row's steps in one instance for each fate.
func (l *room) live(fates ...fate) {
	l.Helper()
	rec := &record{tries: map[*instance]map[string]*tries{}, kills: map[string]int{}, lastWrite: time.Now()}
	api, err := dynamic.NewForConfig(l.c.Config)
	l.must(err)
	for _, f := range fates {
		l.instances++
		w := &instance{TB: l.TB, ctx: l.ctx, api: api, token: fmt.Sprintf("instance-%d", 10+l.instances), fate: f,
			n: 10 + l.instances}
		_, err := l.c.Client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces").
			Body([]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + w.token + `"}}`)).DoRaw(l.ctx)
		l.must(err)
		if l.row.sole != "" {
			w.token = l.row.sole
		}
		if l.row.name != "serviceaccount" && l.row.sole == "" {
			l.check(w.until(time.Now().Add(patience), "its ServiceAccount", exists("ServiceAccount/default")))
		}
		rec.instances = append(rec.instances, w)
	}
	stop := l.run([]string{l.row.name}, rec)
	defer stop()
	for _, s := range l.row.steps {
		for _, w := range rec.instances {
			s.do(w)
		}
		end := time.Now().Add(patience)
		for _, w := range rec.instances {
			l.check(w.until(end, "what it makes", s.want))
		}
		if l.Failed() {
			l.Logf("its writes:\n%s", rec.log())
			return
		}
	}
	l.quiet(rec)
	last := l.row.steps[len(l.row.steps)-1]
	for _, w := range rec.instances {
		if err := last.want(w); err != nil {
			l.Errorf("%s, at rest: got %v, want no error", w.fate, err)
		}
		l.wrote(rec, w)
	}
	for _, write := range rec.hurried {
		l.Errorf("%d tries within %s, want back-off: %s", mostTries, refusedFor, write)
	}
}

func (l *room) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *room) check(err error) {
	l.Helper()
	if err != nil {
		l.Error(err)
	}
}

// quiet waits until the controller writes no more.
func (l *room) quiet(rec *record) {
	l.Helper()
	const rest = 150 * time.Millisecond
	for end := time.Now().Add(time.Minute); ; {
		rec.mu.Lock()
		left := rest - time.Since(rec.lastWrite)
		rec.mu.Unlock()
		if left <= 0 {
			return
		}
		if time.Now().After(end) {
			l.Errorf("it writes without end: %s", rec.log())
			return
		}
		time.Sleep(left)
	}
}

// log lists the writes with the number of their tries.
func (r *record) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for w, all := range r.tries {
		for write, t := range all {
			out = append(out, fmt.Sprintf("%s %s: %d", w.fate, write, t.n))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// wrote checks that a instance's fate befell something, that what another client wrote is not lost,
// and that a refusal is told.
func (l *room) wrote(rec *record, w *instance) {
	l.Helper()
	rec.mu.Lock()
	writes := len(rec.tries[w])
	var paths []string
	for write := range rec.tries[w] {
		if method, path, _ := strings.Cut(write, " "); method == "PUT" || method == "PATCH" {
			paths = append(paths, objectPath(path))
		}
	}
	rec.mu.Unlock()
	if writes == 0 && !l.row.silent {
		l.Errorf("%s: the controller wrote nothing", w.fate)
	}
	if w.fate == touched {
		for _, path := range paths {
			raw, err := l.c.Client.CoreV1().RESTClient().Get().AbsPath(path).
				SetHeader("Accept", "application/json").DoRaw(l.ctx)
			if apierrors.IsNotFound(err) {
				continue
			}
			l.must(err)
			o := &unstructured.Unstructured{}
			l.must(o.UnmarshalJSON(raw))
			if o.GetAnnotations()[touchedKey] == "" {
				l.Errorf("what another client wrote to %s is lost", path)
			}
		}
	}
	if w.fate == forbidden && l.row.event != "" {
		l.check(w.until(time.Now().Add(patience), "the event",
			func(w *instance) error { return w.hasEvent(l.row.event) }))
	}
}

// objectPath is the path of an object without its subresource.
func objectPath(path string) string {
	for _, sub := range []string{"/status", "/finalize", "/scale"} {
		path = strings.TrimSuffix(path, sub)
	}
	return path
}

// touch writes an annotation as another client.
func (l *room) touch(path string) error {
	err := l.c.Client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(objectPath(path)).
		Body([]byte(`{"metadata":{"annotations":{"` + touchedKey + `":"yes"}}}`)).Do(l.ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// run runs controllers until stop; one that dies is started anew. Without a record nothing befalls
// their writes.
func (l *room) run(names []string, rec *record) (stop func()) {
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := l.runControllers(ctx, names, rec); err != nil && ctx.Err() == nil {
				l.Error(err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// runControllers is one life of the controllers.
func (l *room) runControllers(ctx context.Context, names []string, rec *record) error {
	life, die := context.WithCancel(ctx)
	defer die()
	as := func(name string, groups ...string) *rest.Config {
		cfg := rest.CopyConfig(l.c.Config)
		cfg.ContentType, cfg.QPS = "application/json", -1
		cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, user.AllAuthenticated)}
		if rec != nil {
			cfg.Wrap(rec.intercept(life, die, l.touch))
		}
		return cfg
	}
	client, err := kubernetes.NewForConfig(as(user.KubeControllerManager))
	if err != nil {
		return err
	}
	deps := controllerruntime.ControllerContext{Client: client, Journal: journal.Discard{},
		Informers: informers.NewSharedInformerFactory(client, 0), RootCA: []byte(rootCA())}
	if l.row.set != nil {
		l.row.set(&deps)
	}
	return control.Run(life, control.Options{Deps: deps, Only: names,
		As: func(account string) (kubernetes.Interface, metadata.Interface, error) {
			cfg := as(serviceaccount.MakeUsername(metav1.NamespaceSystem, account),
				serviceaccount.MakeGroupNames(metav1.NamespaceSystem)...)
			own, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return nil, nil, err
			}
			meta, err := metadata.NewForConfig(cfg)
			return own, meta, err
		}})
}
