package breaker

import (
	"context"
	"fmt"
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

	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/testcluster"
)

// atOnce is how many breaks are played side by side.
const atOnce = 8

func allKinds() []kind {
	return slices.Concat(referenceKinds, labelKinds, numberKinds, lifeKinds, volumeKinds, wellKinds)
}

// Each kind of break, with words of one seed, in a namespace of its own: the answer's data blames
// the object and field that were broken, with their numbers and what mends them, and nothing else;
// of healthy things it blames nothing. GANTRY_SEED chooses the words, GANTRY_SEEDS how many seeds
// are played, GANTRY_ONLY a part of the names.
func TestTheBreakIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a hundred breaks")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b := start(t)
	var mu sync.Mutex
	sum, all := 0, 0
	missed := map[string][]string{}
	var wait sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for s := seed; s < seed+seeds; s++ {
		for i, k := range allKinds() {
			if !strings.Contains(k.name, os.Getenv("GANTRY_ONLY")) {
				continue
			}
			free <- struct{}{}
			wait.Go(func() {
				defer func() { <-free }()
				p, text := b.play(t.Context(), k, int64(s*1000+i), fmt.Sprintf("s%d-%d", s, i))
				mu.Lock()
				defer mu.Unlock()
				sum, all = sum+p.sum(), all+4
				if p.sum() < 4 {
					missed[k.name] = append(p.missed, text)
				}
			})
		}
	}
	wait.Wait()
	for _, k := range allKinds() {
		if m := missed[k.name]; m != nil {
			t.Logf("%s:\n  %s", k.name, strings.Join(m, "\n  "))
		}
	}
	t.Logf("%d of %d points, %d kinds of %d missed something", sum, all, len(missed), len(allKinds()))
	if all > 0 && 100*sum < leastPercent*all {
		t.Errorf("got %d of %d points, want %d %%", sum, all, leastPercent)
	}
}

// leastPercent of the points has to be reached.
const leastPercent = 95

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// start starts a cluster with three nodes: a plain one, a tainted one and a cordoned one.
func start(t *testing.T) *breaker {
	c := testcluster.Start(t, testcluster.WithNodes("node-1", "node-2", "node-3"))
	for _, code := range []int{0, 3, 4} {
		c.On(testcluster.Match{Image: fmt.Sprintf("exit-%d", code)},
			testcluster.Script{Main: func(*testcluster.Process) int { return code }})
	}
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
	return b
}

// play sets one break up and asks until the answer has all points or patience ends.
func (b *breaker) play(ctx context.Context, k kind, seed int64, namespace string) (points, string) {
	w := newWords(rand.New(rand.NewSource(seed)))
	w["$NS"], w["$TEAM"], w["$CSR"] = namespace, team, b.request
	var all []truth
	for _, t := range k.truth {
		all = append(all, w.inTruth(t))
	}
	failed := func(err error) (points, string) { return points{missed: []string{"set-up: " + err.Error()}}, "" }
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return failed(err)
	}
	if err := b.apply(ctx, namespace, w.in(k.manifest)); err != nil {
		return failed(err)
	}
	if k.after != "" {
		time.Sleep(3 * time.Second) // the first state has to be reached before it is changed
		if err := b.change(ctx, namespace, w.in(k.after)); err != nil {
			return failed(err)
		}
	}
	ask := w.in(k.ask)
	deadline := time.Now().Add(patience)
	if len(all) == 0 {
		time.Sleep(12 * time.Second) // what is merely slow has its time
	}
	var p points
	var text strings.Builder
	for {
		a, now, err := gather.AnswerWith(ctx, b.client, namespace, ask)
		if err == nil {
			if p = score(a, all); p.sum() == 4 || time.Now().After(deadline) || len(all) == 0 {
				_ = a.WriteText(&text, now)
				for _, f := range a.Findings {
					fmt.Fprintf(&text, "# %s %s %s=%q want %q %v\n", f.Code, f.Object, f.Field, f.Value, f.Want,
						f.Numbers)
				}
				return p, text.String()
			}
		} else if time.Now().After(deadline) {
			return failed(err)
		}
		time.Sleep(time.Second)
	}
}
