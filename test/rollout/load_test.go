package rollout

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load asks without pause, each time by a new connection.
type load struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	requests int
	failed   []string
	last     map[string]time.Time // when each Pod answered last
	others   map[string]int       // answers since then, of other Pods
}

// begin asks addresses from several goroutines until end is called.
func begin(t *testing.T, addresses ...string) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop, last: map[string]time.Time{}, others: map[string]int{}}
	for i := range 2 * len(addresses) {
		url := "http://" + addresses[i%len(addresses)] + "/hostname"
		l.done.Go(func() {
			client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			tick := time.NewTicker(4 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				l.note(ask(client, url))
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return l
}

func ask(client *http.Client, url string) (string, error) {
	r, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || len(body) == 0 {
		return "", fmt.Errorf("%s: %q, %v", r.Status, body, err)
	}
	return string(body), nil
}

func (l *load) note(who string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	if err != nil {
		l.failed = append(l.failed, fmt.Sprintf("%s %v", time.Now().Format("15:04:05.000"), err))
		return
	}
	l.last[who] = time.Now()
	for pod := range l.last {
		l.others[pod]++
	}
	l.others[who] = 0
}

// answered is when a Pod answered last.
func (l *load) answered(pod string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[pod]
}

// answersSince is how many answers of other Pods came after a Pod's last one.
func (l *load) answersSince(pod string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others[pod]
}

// end stops asking; there must have been answers from at least so many Pods and no failure.
func (l *load) end(t *testing.T, pods int) {
	t.Helper()
	l.stop()
	l.done.Wait()
	t.Logf("%d requests, %d failed, answered by %d Pods", l.requests, len(l.failed), len(l.last))
	if len(l.last) < pods || l.requests < 200 {
		t.Errorf("too little to prove anything: %d requests, answered by %d Pods, want %d", l.requests, len(l.last),
			pods)
	}
	for _, f := range l.failed[:min(len(l.failed), 10)] {
		t.Error(f)
	}
}
