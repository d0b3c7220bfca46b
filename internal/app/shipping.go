package app

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/journal/ship"
)

// speaker is the component that facts come from, and its node if it has one.
type speaker struct{ by, node string }

// shippedJournal sends facts to the API server's journal where it keeps one. The returned function sends the rest and ends that.
func shippedJournal(ctx context.Context, cfg *rest.Config, who speaker) (journal.Sink, func(), error) {
	client, err := kubernetes.NewForConfig(unthrottled(cfg, who.by))
	if err != nil {
		return nil, nil, err
	}
	s := ship.New(poster{client.Discovery().RESTClient()}, who.by, who.node)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { cancel(); <-done }, nil
}

type poster struct{ client rest.Interface }

func (p poster) Get(ctx context.Context, path string) error {
	return p.client.Get().AbsPath(path).Do(ctx).Error()
}

func (p poster) Post(ctx context.Context, path string, body []byte) error {
	return p.client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx).Error()
}
