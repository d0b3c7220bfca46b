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
	"github.com/gantry-project/gantry/internal/kubelet/volume/downward"
	"github.com/gantry-project/gantry/internal/kubelet/volume/emptydir"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/internal/kubelet/volume/image"
	"github.com/gantry-project/gantry/internal/kubelet/volume/nfs"
	"github.com/gantry-project/gantry/internal/kubelet/volume/objects"
	"github.com/gantry-project/gantry/internal/kubelet/volume/podcert"
	"github.com/gantry-project/gantry/internal/kubelet/volume/projected"
	"github.com/gantry-project/gantry/internal/kubelet/volume/secret"
)

// volumeTypes are the kinds of volumes there are; one row each.
func volumeTypes(m volume.Mounts, o stores, api apiPorts, labels func() (map[string]string, bool)) []volume.Type {
	return []volume.Type{
		emptydir.Type{Mounts: m},
		hostpath.Type{},
		configmap.Type{Mounts: m, Objects: o},
		secret.Type{Mounts: m, Objects: o},
		downward.Type{Mounts: m},
		projected.New(m, o, api).With(o.bundles, o.certs),
		image.Type{},
		nfs.Type{Mounts: m},
		claim.Type{Claims: api, Mounts: m, Labels: labels},
	}
}

// stores are the objects that volumes show.
type stores struct {
	*objects.Cache
	bundles *objects.Bundles
	certs   *podcert.Certificates
}

// Drop ends the watches only this Pod needed.
func (s stores) Drop(uid types.UID) {
	s.Cache.Drop(uid)
	s.bundles.Drop(uid)
	s.certs.Drop(uid)
}

// apiPorts are what volumes ask of the API besides ConfigMaps and Secrets.
type apiPorts struct{ client kubernetes.Interface }

// CreateToken asks for a token of a service account, as the node.
func (a apiPorts) CreateToken(ctx context.Context, namespace, serviceAccount string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return a.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, r, metav1.CreateOptions{})
}

// GetClaim reads a claim.
func (a apiPorts) GetClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return a.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// GetVolume reads a persistent volume.
func (a apiPorts) GetVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	return a.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}

func hookTransport(d dial.Func) http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, DialContext: d} //nolint:gosec // see hookClient
}
