package kubelet_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/podresources"
)

// The PodResources API tells what containers have and what the node could give; more than its limit
// of calls at once are refused.
func TestPodResourcesAPI(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := &deviceplugintest.Plugin{Resource: gpu, Socket: "gpu.sock"}
		p.Report(deviceplugintest.Device("a", pluginapi.Healthy, 0, 1), deviceplugintest.Device("b", pluginapi.Healthy),
			deviceplugintest.Device("c", pluginapi.Unhealthy))
		r.startPlugin(p)
		r.create(pod("p", containerWithDevices("one", gpu, 1), scriptContainer("two", "sleep 3600")))
		path := podresources.SocketPath(filepath.Join(r.root, "kubelet"))
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return r.sockets.Dial(ctx, path)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		api, ctx := podresourcesapi.NewPodResourcesListerClient(conn), context.Background()
		list, err := api.List(ctx, &podresourcesapi.ListPodResourcesRequest{})
		const has = `name:"p"namespace:"default"containers:{name:"one"` +
			`devices:{resource_name:"vendor.com/gpu"device_ids:"a"topology:{nodes:{}}}` +
			`devices:{resource_name:"vendor.com/gpu"device_ids:"a"topology:{nodes:{ID:1}}}}containers:{name:"two"}`
		if got := norm(fmt.Sprint(list.GetPodResources())); err != nil || got != "["+has+"]" {
			t.Errorf("List: got %s, %v, want [%s]", got, err, has)
		}
		one, err := api.Get(ctx, &podresourcesapi.GetPodResourcesRequest{PodName: "p", PodNamespace: "default"})
		if got := norm(fmt.Sprint(one.GetPodResources())); err != nil || got != has {
			t.Errorf("Get: got %s, %v, want %s", got, err, has)
		}
		_, err = api.Get(ctx, &podresourcesapi.GetPodResourcesRequest{PodName: "q", PodNamespace: "default"})
		if want := "pod q in namespace default not found"; status.Convert(err).Message() != want {
			t.Errorf("Get: got %v, want %s", err, want)
		}
		all, err := api.GetAllocatableResources(ctx, &podresourcesapi.AllocatableResourcesRequest{})
		if err != nil || len(all.GetDevices()) != 3 { // a on two nodes, b; c is not healthy
			t.Errorf("GetAllocatableResources: got %v, %v, want a twice and b", all, err)
		}
		time.Sleep(time.Second)
		refused := 0
		for range 30 {
			_, err := api.List(ctx, &podresourcesapi.ListPodResourcesRequest{})
			if status.Code(err) == codes.ResourceExhausted &&
				status.Convert(err).Message() == "rejected by rate limit" {
				refused++
			}
		}
		if refused != 20 {
			t.Errorf("of 30 calls at once %d are refused, want 20", refused)
		}
	})
}
