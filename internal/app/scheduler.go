package app

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler"
	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// schedulerOptions say how the scheduler reaches the API server and what it goes by.
type schedulerOptions struct {
	client   *rest.Config
	file     string // KubeSchedulerConfiguration; empty means the default profile
	allNodes bool   // score every node unless the file says otherwise
	journal  journal.Sink
}

// runScheduler schedules until ctx ends.
func runScheduler(ctx context.Context, o schedulerOptions) error {
	c, err := readSchedulerConfig(o.file)
	if err != nil {
		return err
	}
	if every := int32(100); o.allNodes && c.PercentageOfNodesToScore == nil {
		c.PercentageOfNodesToScore = &every
	}
	client, err := clientFor(o.client, "scheduler")
	if err != nil {
		return err
	}
	s, err := scheduler.New(scheduler.Options{Client: client, KubeConfig: o.client, Config: c, Journal: o.journal})
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return s.Run(ctx)
}

func readSchedulerConfig(path string) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	if path == "" {
		return config.Default(), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, withFix(fmt.Errorf("scheduler configuration: %w", err), "name a readable file")
	}
	c, err := config.Load(raw)
	if err != nil {
		return nil, withFix(fmt.Errorf("scheduler configuration %s: %w", path, err), "correct the field that the message names; kubescheduler.config.k8s.io/v1 documents all")
	}
	return c, nil
}
