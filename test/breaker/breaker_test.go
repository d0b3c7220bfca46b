package breaker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// atOnce is how many breaks of a cluster are played side by side: most of their time they wait.
const atOnce = 16

// askAgain is how long after a question the same one is asked again at the soonest.
const askAgain = 200 * time.Millisecond

func allKinds() []kind {
	return slices.Concat(referenceKinds, labelKinds, numberKinds, lifeKinds, volumeKinds, trafficKinds, placeKinds,
		rightKinds, wellKinds, containerKinds, probeKinds, storeKinds, netKinds, accessKinds, healthyKinds, areaKinds,
		controllerKinds, furtherControllerKinds, mistakeKinds, everydayKinds, reportedKinds, chainKinds,
		specFieldKinds)
}

// pairsOfSeed is how many pairs of breaks each seed plays.
const pairsOfSeed = 12

// triplesOfSeed is how many times three breaks at once each seed plays.
const triplesOfSeed = 8

// openKinds are every other kind, so that each family has its share; GANTRY_FRESH or GANTRY_ONLY:
// all of them.
func openKinds() []kind {
	all := allKinds()
	if os.Getenv("GANTRY_FRESH") != "" || os.Getenv("GANTRY_ONLY") != "" {
		return all
	}
	var out []kind
	for i := 0; i < len(all); i += 2 {
		out = append(out, all[i])
	}
	return out
}

// Kinds of breaks, with words of one seed, each in a namespace of its own: the answer's data blames
// the object and field that were broken, with their numbers and what mends them, and nothing else;
// of healthy things it blames nothing. GANTRY_SEED chooses the words, GANTRY_SEEDS how many seeds
// are played, GANTRY_FRESH all kinds instead of every other, GANTRY_ONLY those with a part of the
// names, or several with | between; with GANTRY_REMEDIES each
// remedy of a true finding is run by kubectl on the same break in another namespace, and has to
// mend it. With GANTRY_FOREIGN why asks as it can ask any Kubernetes, without a journal.
func TestTheBreakIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays a hundred breaks")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b, r := start(t), newTotals()
	for s := seed; s < seed+seeds; s++ {
		b.playAll(t.Context(), r, s, slices.Concat(openKinds(), pairKinds(int64(s), pairsOfSeed),
			tripleKinds(int64(s), triplesOfSeed)))
	}
	least := leastPercent
	if b.foreign {
		least = leastForeignPercent
	}
	r.report(t, least)
}

// leastQuestionsPercent of the points of questionKinds and togetherKinds has to be reached.
const leastQuestionsPercent = 95

// As TestTheBreakIsNamed, with one break asked of several objects, two faults at once and healthy
// things that look ill.
func TestTheBreakIsNamedFromSeveralSides(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays dozens of breaks")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b, r := start(t), newTotals()
	for s := seed; s < seed+seeds; s++ {
		b.playAll(t.Context(), r, s, slices.Concat(questionKinds, togetherKinds))
	}
	r.report(t, leastQuestionsPercent)
}

// shortForeign are the kinds, by parts of their names, that a run without a journal plays in every
// test: those whose answers hang most on what a kubelet says.
const shortForeign = "probe: |container: |store: directory|store: file|store: socket|store: block device|" +
	"store: driver|crash|well: slow|well: Pod that"

// Without a journal, and without what else only Gantry serves, why tells of events and status what
// is broken; a few dozen kinds of GANTRY_FOREIGN's.
func TestTheBreakIsNamedWithoutAJournal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plays dozens of breaks")
	}
	b, r := startOn(t, func(c *testcluster.Cluster) (*breaker, error) { return breakerOf(c, true) }), newTotals()
	b.patience = time.Minute
	var kinds []kind
	for _, k := range allKinds() {
		if inField(k.name, shortForeign) {
			kinds = append(kinds, k)
		}
	}
	b.playAll(t.Context(), r, 1, kinds)
	r.report(t, leastForeignPercent)
}

// playAll plays kinds with the words of a seed, several at once, and returns when all have ended.
func (b *breaker) playAll(ctx context.Context, r *totals, seed int, kinds []kind) {
	var wait sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i, k := range kinds {
		if !inField(k.name, os.Getenv("GANTRY_ONLY")) {
			continue
		}
		free <- struct{}{}
		b.roomOnNodes(ctx)
		wait.Go(func() {
			defer func() { <-free }()
			p, text := b.play(ctx, k, int64(seed*1000+i), fmt.Sprintf("s%d-%d", seed, i))
			r.add(k.name, p, text)
			if b.reported != nil {
				b.reported(k.name, p)
			}
		})
	}
	wait.Wait()
}

// totals counts points. Its methods are safe for concurrent use.
type totals struct {
	mu      sync.Mutex
	played  map[string]int      // by kind
	got     map[string]int      // points by kind
	byPoint map[string]int      // by cause, numbers, …
	missed  map[string][]string // what was missed and the answer, by kind
}

func newTotals() *totals {
	return &totals{played: map[string]int{}, got: map[string]int{}, byPoint: map[string]int{},
		missed: map[string][]string{}}
}

// add counts what one break got.
func (r *totals) add(name string, p points, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.played[name]++
	r.got[name] += p.sum()
	for point, got := range map[string]bool{"cause": p.cause, "numbers": p.facts, "nothing else": p.claim,
		"remedy": p.remedy} {
		if got {
			r.byPoint[point]++
		}
	}
	if p.sum() < 4 {
		r.missed[name] = append(append(r.missed[name], p.missed...), text)
	}
}

// report prints the points by kind where some are missed, and in all, and demands a part of them in
// percent.
func (r *totals) report(t *testing.T, least int) {
	all, sum := 0, 0
	for name, n := range r.played {
		all, sum = all+n, sum+r.got[name]
	}
	for _, name := range slices.Sorted(maps.Keys(r.missed)) {
		t.Logf("%s: %d of %d\n  %s", name, r.got[name], 4*r.played[name], strings.Join(r.missed[name], "\n  "))
	}
	for _, point := range slices.Sorted(maps.Keys(r.byPoint)) {
		t.Logf("%s: %d of %d", point, r.byPoint[point], all)
	}
	t.Logf("%d of %d points, %d kinds of %d missed something", sum, 4*all, len(r.missed), len(r.played))
	if all > 0 && 100*sum < least*4*all {
		t.Errorf("got %d of %d points, want %d %%", sum, 4*all, least)
	}
}

// leastPercent of the points has to be reached.
const leastPercent = 95

// leastForeignPercent is the same without a journal.
const leastForeignPercent = 90

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// start starts a cluster with three nodes: a plain one, a tainted one and a cordoned one.
func start(t *testing.T) *breaker { return startOn(t, newBreaker) }

// startOn is start with a way to make the breaker and more options of the cluster.
func startOn(t *testing.T, newBreaker func(*testcluster.Cluster) (*breaker, error),
	more ...testcluster.Option) *breaker {
	c := testcluster.Start(t, append(more, testcluster.WithNodes("node-1", "node-2", "node-3"))...)
	for _, code := range []int{0, 3, 4} {
		c.On(testcluster.Match{Image: fmt.Sprintf("exit-%d", code)},
			testcluster.Script{Main: func(*testcluster.Process) int { return code }})
	}
	images(c)
	for node, patch := range map[string]string{
		"node-2": `{"spec":{"taints":[{"key":"team","value":"` + team + `","effect":"NoSchedule"}]}}`,
		"node-3": `{"spec":{"unschedulable":true}}`} {
		if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := newBreaker(c)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GANTRY_REMEDIES") != "" {
		b.kubeconfig = kubeconfig(t, c.Config)
	}
	return b
}

// wordsOf are the words of a seed, and the truth in them.
func (b *breaker) wordsOf(k kind, seed int64, namespace string) (words, []truth) {
	w := newWords(rand.New(rand.NewSource(seed)))
	w["$NS"], w["$TEAM"], w["$CSR"] = namespace, team, b.request
	w["$OLD"], w["$CRT"] = b.expired, b.valid
	maps.Copy(w, b.more)
	var all []truth
	for _, t := range k.truth {
		all = append(all, w.inTruth(t))
	}
	return w, all
}

// setUp makes a namespace with a kind's objects, and changes them.
func (b *breaker) setUp(ctx context.Context, k kind, w words, namespace string) error {
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.apply(ctx, namespace, w.in(k.manifest)); err != nil {
		return err
	}
	return b.changeAll(ctx, namespace, w.in(k.after))
}

// ask asks why; of nothing: what is wrong in the namespace. Its findings about the namespace's own
// objects are then the answer's: nodes and volumes are shared with other breaks.
func (b *breaker) ask(ctx context.Context, q gather.Question) (explain.Answer, error) {
	if q.About != "" {
		return gather.AnswerWith(ctx, b.client, q)
	}
	o, err := gather.Overview(ctx, b.client, q.Namespace)
	a := explain.Answer{State: o.Scope}
	for _, root := range o.Causes {
		if root.Object.Namespace == q.Namespace {
			a.Findings = append(a.Findings, root.Finding)
		}
	}
	return a, err
}

// play sets one break up and asks until the answer has all points or patience ends.
func (b *breaker) play(ctx context.Context, k kind, seed int64, namespace string) (points, string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, all := b.wordsOf(k, seed, namespace)
	failed := func(err error) (points, string) { return points{missed: []string{"set-up: " + err.Error()}}, "" }
	defer b.remove(namespace)
	if err := b.setUp(ctx, k, w, namespace); err != nil {
		return failed(err)
	}
	ask := w.in(k.ask)
	watch, most := expect.NewStopwatch(), cmp.Or(b.patience, patience)
	if len(all) == 0 {
		b.settled(ctx, namespace, ask)
	}
	changes, next := b.changes(ctx, namespace), time.NewTicker(askAgain)
	defer next.Stop()
	var p points
	var text strings.Builder
	for {
		now := time.Now().Add(ahead)
		a, err := b.ask(ctx, gather.Question{Namespace: namespace, About: ask, Now: now})
		if err == nil {
			if p = score(a, all); p.sum() == 4 || watch.Elapsed() > most {
				if b.others {
					p.elsewhere = b.askElsewhere(ctx, place{namespace, ask, now}, all)
				}
				_ = a.WriteText(&text, now)
				for _, f := range a.Findings {
					fmt.Fprintf(&text, "# %s %s %s=%q want %q %v\n", f.Code, f.Object, f.Field, f.Value, f.Want,
						f.Numbers)
				}
				if b.kubeconfig != "" && p.cause {
					if bad := b.tryRemedies(ctx, k, played{seed, namespace}, commandsOf(a, all)); len(bad) > 0 {
						p.remedy, p.missed = false, append(p.missed, bad...)
					}
				}
				return p, text.String()
			}
		} else if watch.Elapsed() > most {
			return failed(err)
		}
		select {
		case <-changes:
		case <-time.After(time.Second): // what is not an object of the namespace has changed, perhaps
		}
		<-next.C // changes come several at a time
	}
}
