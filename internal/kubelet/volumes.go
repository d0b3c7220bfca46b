package kubelet

import (
	"context"
	"crypto/tls"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/kubelet/probe/dial"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/configmap"
	"github.com/gantry-project/gantry/internal/kubelet/volume/downwardapi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/image"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/objectcache"
	"github.com/gantry-project/gantry/internal/kubelet/volume/podcertificate"
	"github.com/gantry-project/gantry/internal/kubelet/volume/projected"
	"github.com/gantry-project/gantry/internal/kubelet/volume/secret"
)

// volumePlugins are the kinds of volumes there are; one row each.
func volumePlugins(m volume.Mounter, o objectCaches, api volumeAPI,
	labels func() (map[string]string, bool)) []volume.Plugin {
	return []volume.Plugin{
		emptydir.Plugin{Mounts: m},
		hostpath.Plugin{},
		configmap.Plugin{Mounts: m, Objects: o},
		secret.Plugin{Mounts: m, Objects: o},
		downwardapi.Plugin{Mounts: m},
		projected.New(m, o, api).WithSources(o.bundles, o.certs),
		image.Plugin{},
		nfs.Plugin{Mounts: m},
		claim.Plugin{Claims: api, Mounts: m, Labels: labels},
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
