package app

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/journal/remote"
)

// JournalSource is the component that facts come from, and its node if it has one.
type JournalSource struct{ Component, node string }

// NewRemoteJournal returns a sink that sends facts to the API server's journal, where it keeps one,
// from a goroutine of its own; Put does not wait. The returned function sends what is left, and
// returns when that goroutine has ended: call it once. The error is that of a configuration from
// which no client can be made.
func NewRemoteJournal(ctx context.Context, cfg *rest.Config, who JournalSource) (journal.Sink, func(), error) {
	client, err := kubernetes.NewForConfig(unthrottled(cfg, who.Component))
	if err != nil {
		return nil, nil, err
	}
	s := remote.New(restPoster{client.Discovery().RESTClient()}, who.Component, who.node)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { cancel(); <-done }, nil
}

type restPoster struct{ client rest.Interface }

// Get asks for path and drops the answer; the error is the API server's status.
func (p restPoster) Get(ctx context.Context, path string) error {
	return p.client.Get().AbsPath(path).Do(ctx).Error()
}

// Post sends body as JSON to path; the error is the API server's status.
func (p restPoster) Post(ctx context.Context, path string, body []byte) error {
	return p.client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept",
		"application/json").Body(body).Do(ctx).Error()
}
