package bootstrap

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of token Secrets and of the ConfigMap. Source:
// kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens.
const (
	clusterInfoConfigMap = "cluster-info"
	kubeconfigKey        = "kubeconfig"
	signaturePrefix      = "jws-kubeconfig-"
	secretPrefix         = "bootstrap-token-"
)

// Plan is the outcome of Decide.
type Plan struct {
	Expired     []*corev1.Secret
	NextExpiry  time.Duration     // until the next one expires; 0: none does
	ClusterInfo *corev1.ConfigMap // cluster-info with the right signatures; nil if it has them or does not exist
}

// Decide evaluates all token Secrets and cluster-info, which may be nil.
func Decide(secrets []*corev1.Secret, info *corev1.ConfigMap, now time.Time) Plan {
	var p Plan
	keys := map[string]string{}
	for _, s := range secrets {
		if s.Type != corev1.SecretTypeBootstrapToken || s.DeletionTimestamp != nil {
			continue
		}
		if end := string(s.Data["expiration"]); end != "" {
			at, err := time.Parse(time.RFC3339, end)
			if err != nil || !now.Before(at) { // a time that cannot be parsed counts as past, as upstream
				p.Expired = append(p.Expired, s)
				continue
			}
			if left := at.Sub(now); p.NextExpiry == 0 || left < p.NextExpiry {
				p.NextExpiry = left
			}
		}
		id, secret := string(s.Data["token-id"]), string(s.Data["token-secret"])
		if string(s.Data["usage-bootstrap-signing"]) == "true" && s.Name == secretPrefix+id && secret != "" {
			keys[id] = secret
		}
	}
	if info == nil || info.Data[kubeconfigKey] == "" {
		return p
	}
	next := info.DeepCopy()
	maps.DeleteFunc(next.Data, func(k, _ string) bool { return strings.HasPrefix(k, signaturePrefix) })
	for id, secret := range keys {
		next.Data[signaturePrefix+id] = sign(info.Data[kubeconfigKey], id, secret)
	}
	if !maps.Equal(next.Data, info.Data) {
		p.ClusterInfo = next
	}
	return p
}

// sign returns a detached JWS with HMAC SHA-256: header and signature without the content.
// Libraries refuse keys as short as a token's secret.
func sign(content, id, secret string) string {
	header, _ := json.Marshal(struct { // texts always marshal
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}{"HS256", id})
	text := base64.RawURLEncoding
	head := text.EncodeToString(header)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(head + "." + text.EncodeToString([]byte(content))))
	return head + ".." + text.EncodeToString(mac.Sum(nil))
}
