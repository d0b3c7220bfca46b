package main

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind/dramanager"
	"github.com/gantry-project/gantry/internal/scheduler/bind/volumebinder"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

// fixtureHandle is a Handle with volumes and devices, like the scheduler's, over informers of a
// fake API.
type fixtureHandle struct {
	fakeHandle
	client       kubernetes.Interface
	volumeBinder *volumebinder.VolumeBinder
	manager      *dramanager.Manager
}

// ClientSet is the fake API.
func (s *fixtureHandle) ClientSet() kubernetes.Interface { return s.client }

// VolumeListers returns the listers of volumes.
func (s *fixtureHandle) VolumeListers() volumelisters.Listers { return s.volumeBinder }

// VolumeBinder returns the binder; measured volumes are bound already.
func (s *fixtureHandle) VolumeBinder() volumebinding.Binder { return s.volumeBinder }

// DeviceAllocation returns the DRA manager and the claim writer.
func (s *fixtureHandle) DeviceAllocation() (framework.SharedDRAManager, dynamicresources.ClaimWriter) {
	return s.manager, s.manager
}

// createFixture creates what nodes offer and what measured Pods need, and a Handle whose caches
// have it; end stops its informers.
func (s *workload) createFixture(ctx context.Context, nodes, pods int) (h framework.Handle, end func(), err error) {
	client := fake.NewClientset()
	client.Resources = []*metav1.APIResourceList{{GroupVersion: resourceapi.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "resourceclaims"}}}}
	b := &testbed{client: client, o: options{creators: 1}}
	if s.before != nil {
		if err := s.before(ctx, b, nodes); err != nil {
			return nil, nil, err
		}
	}
	for i := range pods {
		if err := s.setup(ctx, b, s.makeMeasured(i, nodes).Name); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	all := informers.NewSharedInformerFactory(client, 0) // everything was created before: the first lists have it
	own := &fixtureHandle{fakeHandle: fakeHandle{informers: all}, client: client}
	if own.volumeBinder, err = volumebinder.New(own); err == nil {
		own.manager, err = dramanager.New(ctx, client, all)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	end = func() {
		cancel()
		own.manager.Stop()
		all.Shutdown()
	}
	all.Core().V1().Namespaces().Informer()
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), own.manager.HasSynced) {
		end()
		return nil, nil, fmt.Errorf("reading volumes and devices: %w", context.Cause(ctx))
	}
	return own, end, nil
}
