// Package csitest is a CSI driver for tests, a server on a socket: it obeys the protocol, refuses
// calls out of order, and on command its calls fail, hang, answer late or lie.
package csitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is a node service with its registration, and a controller service if it is to have one.
// Fields are set before Start.
type Driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	Name         string
	Info         *csipb.NodeGetInfoResponse
	Capabilities []csipb.NodeServiceCapability_RPC_Type
	// Controls are the capabilities of its controller service; without any it has none.
	Controls []csipb.ControllerServiceCapability_RPC_Type
	Stats    *csipb.NodeGetVolumeStatsResponse // of every volume
	Dir      string                            // of its sockets

	mu       sync.Mutex
	calls    []string
	requests map[string]any // last by method
	rules    map[string]rule
	server   *grpc.Server
	has      backend
}

// rule is what a call does instead of its work.
type rule struct {
	err   error
	hang  chan struct{}
	delay time.Duration
	skip  bool
	work  bool // is done before the rest of the rule
	once  bool // the rule holds for one call
}

// Start serves on csi.sock in a short directory until the test ends.
func (d *Driver) Start(t testing.TB) *Driver {
	t.Helper()
	if d.Dir == "" {
		dir, err := os.MkdirTemp("", "drv")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		d.Dir = dir
	}
	d.requests, d.rules = map[string]any{}, map[string]rule{}
	d.has = newBackend()
	if d.Info == nil {
		d.Info = &csipb.NodeGetInfoResponse{NodeId: "id-of-node"}
	}
	d.Serve(t)
	return d
}

// Serve serves, anew after Stop: what is mounted stays.
func (d *Driver) Serve(t testing.TB) {
	t.Helper()
	l, err := net.Listen("unix", d.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csipb.RegisterIdentityServer(s, d)
	csipb.RegisterNodeServer(s, d)
	if len(d.Controls) > 0 {
		csipb.RegisterControllerServer(s, d)
	}
	d.server = s
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
}

// Stop ends the driver as a kill does.
func (d *Driver) Stop() { d.server.Stop() }

// Endpoint is the path of the driver's socket.
func (d *Driver) Endpoint() string { return filepath.Join(d.Dir, "csi.sock") }

// Register makes the registration socket in a kubelet's plugins_registry.
func (d *Driver) Register(t testing.TB, registry string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(registry, d.Name+"-reg.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	registerapi.RegisterRegistrationServer(s, registration{d: d})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return s.Stop
}

type registration struct {
	registerapi.UnimplementedRegistrationServer
	d *Driver
}

func (r registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: r.d.Name, Endpoint: r.d.Endpoint(),
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (r registration) NotifyRegistrationStatus(context.Context,
	*registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (d *Driver) set(method string, r rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[method] = r
}

// Fail has calls of the method end with the error.
func (d *Driver) Fail(method string, err error) { d.set(method, rule{err: err}) }

// Hang has calls of the method answer nothing before the channel is closed; they do their work
// then.
func (d *Driver) Hang(method string, until chan struct{}) { d.set(method, rule{hang: until}) }

// DelayCalls has calls of the method answer after a time, whoever still waits.
func (d *Driver) DelayCalls(method string, after time.Duration) { d.set(method, rule{delay: after}) }

// SkipCalls has calls of the method do nothing and answer that it is done.
func (d *Driver) SkipCalls(method string) { d.set(method, rule{skip: true}) }

// Die has the next call of the method end as when the driver is killed before its work, or after it
// and before its answer.
func (d *Driver) Die(method string, worked bool) {
	d.set(method, rule{err: status.Error(codes.Unavailable, "transport is closing"), work: worked, once: true})
}

// Stall has the next call of the method answer nothing before the channel is closed. Its work is
// done before that, or never.
func (d *Driver) Stall(method string, worked bool, until chan struct{}) {
	d.set(method, rule{hang: until, err: status.Error(codes.Canceled, "nobody waits"), work: worked, once: true})
}

// Left is what is still staged and published: volumes by path.
func (d *Driver) Left() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := maps.Clone(d.has.published)
	for id, path := range d.has.staged {
		out[path] = id
	}
	return out
}

// Staged has a volume be staged at a path, as by an earlier process of the driver.
func (d *Driver) Staged(id, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has.staged[id] = path
}

// AddNodes has volumes be attached to further nodes, by the ids that drivers give them.
func (d *Driver) AddNodes(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has.nodes = append(d.has.nodes, ids...)
}

// Attached are the ids of nodes by the volumes that are attached to them, and what was refused
// because the volume was attached to another.
func (d *Driver) Attached() (nodes map[string]string, refused []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.has.attached), slices.Clone(d.has.refused)
}

// ClearFaults has calls of the method do their work again.
func (d *Driver) ClearFaults(method string) { d.set(method, rule{}) }

// Calls are the calls that change something since the last call of Calls: method, volume, path.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.calls
	d.calls = nil
	return out
}

// Request is what the method was last called with; nil when it was not.
func (d *Driver) Request(method string) any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests[method]
}

func (d *Driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	d.mu.Lock()
	d.requests[method] = req
	r := d.rules[method]
	if r.once {
		delete(d.rules, method)
	}
	d.mu.Unlock()
	if r.work {
		if err := d.check(req); err != nil {
			return nil, err
		}
		if _, err := handle(ctx, req); err != nil {
			return nil, err
		}
	}
	if r.hang != nil {
		<-r.hang
	}
	if r.delay > 0 {
		time.Sleep(r.delay)
	}
	if r.err != nil {
		if !r.work {
			d.note(method, req)
		}
		return nil, r.err
	}
	if r.skip {
		d.note(method, req)
		return answers[method], nil
	}
	if err := d.check(req); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

var answers = map[string]any{
	"NodeStageVolume": &csipb.NodeStageVolumeResponse{}, "NodeUnstageVolume": &csipb.NodeUnstageVolumeResponse{},
	"NodePublishVolume":   &csipb.NodePublishVolumeResponse{},
	"NodeUnpublishVolume": &csipb.NodeUnpublishVolumeResponse{},
	"NodeExpandVolume":    &csipb.NodeExpandVolumeResponse{},
	"DeleteVolume":        &csipb.DeleteVolumeResponse{}, "DeleteSnapshot": &csipb.DeleteSnapshotResponse{},
	"ControllerPublishVolume":   &csipb.ControllerPublishVolumeResponse{},
	"ControllerUnpublishVolume": &csipb.ControllerUnpublishVolumeResponse{},
}

// note keeps a call.
func (d *Driver) note(method string, req any) {
	text := method
	if r, ok := req.(interface{ GetVolumeId() string }); ok {
		text += " " + r.GetVolumeId()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, text)
}

// NodeGetInfo is Info.
func (d *Driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return d.Info, nil
}

// NodeGetCapabilities is Capabilities.
func (d *Driver) NodeGetCapabilities(context.Context,
	*csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	out := &csipb.NodeGetCapabilitiesResponse{}
	for _, c := range d.Capabilities {
		out.Capabilities = append(out.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

func (d *Driver) stages() bool {
	for _, c := range d.Capabilities {
		if c == csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME {
			return true
		}
	}
	return false
}

// NodeStageVolume keeps that the volume is staged.
func (d *Driver) NodeStageVolume(_ context.Context,
	r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	d.note("NodeStageVolume", r)
	if info, err := os.Stat(r.GetStagingTargetPath()); err != nil || !info.IsDir() {
		return nil, status.Errorf(codes.InvalidArgument, "the staging path is no directory: %v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has.staged[r.GetVolumeId()] = r.GetStagingTargetPath()
	return &csipb.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume refuses volumes that are still published.
func (d *Driver) NodeUnstageVolume(_ context.Context,
	r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	d.note("NodeUnstageVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, id := range d.has.published {
		if id == r.GetVolumeId() {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is still published at %s", id, path)
		}
	}
	delete(d.has.staged, r.GetVolumeId())
	return &csipb.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume makes the target path.
func (d *Driver) NodePublishVolume(_ context.Context,
	r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	d.note("NodePublishVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := r.GetStagingTargetPath(); at != "" && d.has.staged[r.GetVolumeId()] != at {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", r.GetVolumeId(), at)
	} else if at == "" && d.stages() && r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] != "true" {
		return nil, status.Error(codes.FailedPrecondition, "no staging path is given")
	}
	if info, err := os.Stat(filepath.Dir(r.GetTargetPath())); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the target's parent is no directory: %w", err)
	}
	d.has.published[r.GetTargetPath()] = r.GetVolumeId()
	if r.GetVolumeCapability().GetBlock() != nil {
		return &csipb.NodePublishVolumeResponse{}, os.WriteFile(r.GetTargetPath(), nil, 0o600)
	}
	return &csipb.NodePublishVolumeResponse{}, os.MkdirAll(r.GetTargetPath(), 0o777)
}

// NodeUnpublishVolume removes the target path.
func (d *Driver) NodeUnpublishVolume(_ context.Context,
	r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	d.note("NodeUnpublishVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.has.published, r.GetTargetPath())
	if err := os.RemoveAll(r.GetTargetPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

// NodeExpandVolume does what it is told.
func (d *Driver) NodeExpandVolume(_ context.Context,
	r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	d.note("NodeExpandVolume", r)
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

// NodeGetVolumeStats is Stats; without them every volume is empty.
func (d *Driver) NodeGetVolumeStats(context.Context,
	*csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	if d.Stats == nil {
		return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{{Unit: csipb.VolumeUsage_BYTES}}}, nil
	}
	return d.Stats, nil
}
