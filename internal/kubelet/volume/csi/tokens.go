package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// tokensKey is where a driver finds the tokens that it asks for.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// addTokens puts the tokens that the driver's tokenRequests name among the volume's context, or its
// secrets when the driver asks for that. They are the service account's, bound to the Pod.
func (p Plugin) addTokens(ctx context.Context, obj *storagev1.CSIDriver, pod *v1.Pod,
	r *csipb.NodePublishVolumeRequest) (refresh time.Time, err error) {
	if len(obj.Spec.TokenRequests) == 0 {
		return refresh, nil
	}
	tokens := map[string]authenticationv1.TokenRequestStatus{}
	for _, want := range obj.Spec.TokenRequests {
		seconds := int64(3600)
		if want.ExpirationSeconds != nil {
			seconds = *want.ExpirationSeconds
		}
		ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
				UID: pod.UID}}}
		if want.Audience != "" {
			ask.Spec.Audiences = []string{want.Audience}
		}
		got, err := p.API.CreateToken(ctx, pod.Namespace, pod.Spec.ServiceAccountName, ask)
		if err != nil {
			return refresh, fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get service account token "+
				"attributes: %w", err)
		}
		tokens[want.Audience] = got.Status
		at := volume.TokenRefreshTime(got.Status.ExpirationTimestamp.Time, time.Duration(seconds)*time.Second)
		if refresh.IsZero() || at.Before(refresh) {
			refresh = at
		}
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return refresh, err
	}
	if in := obj.Spec.ServiceAccountTokenInSecrets; in != nil && *in {
		if r.Secrets == nil {
			r.Secrets = map[string]string{}
		}
		r.Secrets[tokensKey] = string(text)
		return refresh, nil
	}
	r.VolumeContext[tokensKey] = string(text)
	return refresh, nil
}
