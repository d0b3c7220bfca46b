package kubelet

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/probe/dial"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/configmap"
	"github.com/gantry-project/gantry/internal/kubelet/volume/downwardapi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/image"
	"github.com/gantry-project/gantry/internal/kubelet/volume/local"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/objectcache"
	"github.com/gantry-project/gantry/internal/kubelet/volume/podcertificate"
	"github.com/gantry-project/gantry/internal/kubelet/volume/projected"
	"github.com/gantry-project/gantry/internal/kubelet/volume/secret"
)

// volumePlugins are the types of volumes that this node serves, one row each: in a Pod's spec
// (Inline), behind a claim (PersistentVolume), or both. v136: their texts are those of v1.36.
func volumePlugins(m volume.Mounter, o objectCaches, api volumeAPI, v136 bool) volume.PluginMgr {
	return volume.PluginMgr{
		{Plugin: emptydir.Plugin{Mounts: m}, Inline: true, FSGroup: true},
		{Plugin: hostpath.Plugin{V136: v136}, Inline: true, PersistentVolume: true},
		{Plugin: local.Plugin{Mounts: m}, PersistentVolume: true, FSGroup: true},
		{Plugin: configmap.New(m, o), Inline: true, FSGroup: true},
		{Plugin: secret.New(m, o), Inline: true, FSGroup: true},
		{Plugin: downwardapi.New(m), Inline: true, FSGroup: true},
		{Plugin: projected.New(m, o, api).WithSources(o.bundles, o.certs), Inline: true, FSGroup: true},
		{Plugin: image.Plugin{}, Inline: true},
		{Plugin: nfs.Plugin{Mounts: m}, Inline: true, PersistentVolume: true, MountOptions: true},
	}
}

// objectCaches are the objects that volumes show.
type objectCaches struct {
	*objectcache.Cache
	bundles *objectcache.Bundles
	certs   *podcertificate.Manager
}

// UnregisterPod ends the watches only this Pod needed.
func (s objectCaches) UnregisterPod(uid types.UID) {
	s.Cache.UnregisterPod(uid)
	s.bundles.UnregisterPod(uid)
	s.certs.UnregisterPod(uid)
}

// volumeAPI are what volumes ask of the API besides ConfigMaps and Secrets.
type volumeAPI struct{ client kubernetes.Interface }

// CreateToken asks for a token of a service account, as the node.
func (a volumeAPI) CreateToken(ctx context.Context, namespace, serviceAccount string,
	r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return a.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, r, metav1.CreateOptions{})
}

// GetClaim reads a claim.
func (a volumeAPI) GetClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return a.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// GetVolume reads a persistent volume.
func (a volumeAPI) GetVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	return a.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}

func hookTransport(d dial.Func) http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		DialContext: d} //nolint:gosec // see hookClient
}

// recursiveReadOnly tells whether a mount of the Pod asks to be read-only with everything below it
// where that is possible, and the runtime handler of its class can do it.
func (k *Kubelet) recursiveReadOnly(p *v1.Pod) bool {
	asks := slices.ContainsFunc(podplan.Members(p), func(m podplan.Member) bool {
		return slices.ContainsFunc(m.VolumeMounts, func(v v1.VolumeMount) bool {
			return v.RecursiveReadOnly != nil && *v.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible
		})
	})
	n := k.node.getOrInitial()
	if !asks || n == nil {
		return false
	}
	class := ""
	if p.Spec.RuntimeClassName != nil {
		class = *p.Spec.RuntimeClassName
	}
	handler, err := k.cluster.RuntimeHandler(context.Background(), class)
	return err == nil && slices.ContainsFunc(n.Status.RuntimeHandlers, func(h v1.NodeRuntimeHandler) bool {
		return h.Name == handler && h.Features != nil && h.Features.RecursiveReadOnlyMounts != nil &&
			*h.Features.RecursiveReadOnlyMounts
	})
}
