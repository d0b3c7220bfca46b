package pull_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
)

// factLog keeps the facts of each Pod, with the second in which they came.
type factLog struct {
	mu        sync.Mutex
	startedAt time.Time
	lines     map[string][]string
}

func (n *factLog) Put(ref journal.Ref, f journal.Fact) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch f.(type) {
	case journal.PullQueued, journal.PullProgress, journal.Waited:
		n.lines[ref.Name] = append(n.lines[ref.Name], fmt.Sprintf("%.1fs %s", time.Since(n.startedAt).Seconds(),
			f.Line()))
	}
}

func (n *factLog) factsOf(pod string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines[pod])
}

func TestPullReportsPositionAndProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeRegistry{present: map[string]bool{}, slow: 10 * time.Second}
		n := &factLog{startedAt: time.Now(), lines: map[string][]string{}}
		startedAt := map[string]time.Time{}
		p := pull.New(pull.Deps{Images: w, Recorder: w, Journal: n, MaxParallel: 1,
			Progress: func(_ context.Context, image string) (int64, int64, bool) {
				if startedAt[image].IsZero() {
					startedAt[image] = time.Now()
					return 0, 0, false // no manifest yet
				}
				return min(int64(time.Since(startedAt[image]).Seconds())*12_340_000, 45_600_000), 45_600_000, true
			}})
		var all sync.WaitGroup
		want := func(pod, image string) {
			r := request(pod, image, v1.PullIfNotPresent)
			all.Go(func() {
				if _, err := p.EnsureImageExists(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		want("first", "r.test/big:1")
		want("second", "r.test/app:1")
		want("third", "r.test/web:1")
		time.Sleep(7 * time.Second)
		want("late", "r.test/big:1") // joins the pull that is under way
		all.Wait()
		for pod, lines := range map[string]string{
			"first": `2.5s pulling image "r.test/big:1": 12.3 MB of 45.6 MB; 4.8s pulling image "r.test/big:1": 37.0 ` +
				`MB of 45.6 MB; 8.1s pulling image "r.test/big:1": all 45.6 MB fetched, being unpacked`,
			"late": `7.0s pulling image "r.test/big:1": 37.0 MB of 45.6 MB; 8.1s pulling image "r.test/big:1": all ` +
				`45.6 MB fetched, being unpacked`,
		} {
			if got := strings.Join(n.factsOf(pod), "; "); got != lines {
				t.Errorf("%s: %s\nwant %s", pod, got, lines)
			}
		}
		queue := strings.Join(n.factsOf("third"), "; ")
		for _, part := range []string{
			`0.0s image "r.test/web:1" waits for its turn to be pulled: place 2 in the queue, behind r.test/big:1; 1 ` +
				`side by side at most (maxParallelImagePulls)`,
			`10.0s image "r.test/web:1" waits for its turn to be pulled: place 1 in the queue, behind r.test/app:1;`,
			`20.0s waited 20s for its turn to pull image "r.test/web:1"`,
		} {
			if !strings.Contains(queue, part) {
				t.Errorf("the third lacks %q:\n%s", part, queue)
			}
		}
	})
}

func TestLeavingTheQueueAdvancesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeRegistry{present: map[string]bool{}, slow: 10 * time.Second}
		n := &factLog{startedAt: time.Now(), lines: map[string][]string{}}
		p := pull.New(pull.Deps{Images: w, Recorder: w, Journal: n, MaxParallel: 1})
		bored, leave := context.WithCancel(t.Context())
		for i, ctx := range []context.Context{t.Context(), bored, t.Context()} {
			go func() {
				_, _ = p.EnsureImageExists(ctx, request(fmt.Sprint("p", i), fmt.Sprint("r.test/app:", i),
					v1.PullIfNotPresent))
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		if got := strings.Join(n.factsOf("p2"), "; "); !strings.Contains(got, "place 2") || !strings.Contains(got,
			"place 1") {
			t.Errorf(`got %v, want it with "place 2" and with "place 1"`, got)
		}
		time.Sleep(20 * time.Second)
		if w.pulls != 2 {
			t.Errorf("%d pulls, want 2: nobody wants the second image", w.pulls)
		}
	})
}
