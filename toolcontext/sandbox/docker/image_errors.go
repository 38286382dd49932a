package docker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Why an image could not be had, for those who decide what to do about it.
var (
	// ErrImageNotFound says that no registry and no engine has the image.
	ErrImageNotFound = errors.New("there is no such image")
	// ErrImageDenied says that the registry wants another login.
	ErrImageDenied = errors.New("the registry does not give the image to this login")
	// ErrRateLimited says that the registry wants fewer requests.
	ErrRateLimited = errors.New("the registry allows no more pulls for now")
	// ErrDiskFull says that the engine's disk is full.
	ErrDiskFull = errors.New("the engine's disk is full")
)

// trouble is why a pull or build failed.
type trouble int

const (
	transient trouble = iota // worth another try
	rateLimited
	notFound
	denied
	diskFull
	hopeless // any other reason that stays
)

// symptoms are what engines and registries say, in the order in which they are looked
// for: a registry says "denied" with its rate limit, and "not found" with a denial.
var symptoms = []struct {
	kind trouble
	text *regexp.Regexp
}{
	{rateLimited, regexp.MustCompile(`(?i)toomanyrequests|too many requests|rate limit|status:? (code )?429`)},
	{diskFull, regexp.MustCompile(`(?i)no space left on device|disk quota exceeded`)},
	// Which of the two it is, Docker's registry does not tell those who are not logged in.
	{denied, regexp.MustCompile(`(?i)\bdenied$|unauthorized|authentication required|no basic auth credentials|access (to the resource )?is? ?denied|denied: |incorrect username or password|status:? (code )?40[13]`)},
	{notFound, regexp.MustCompile(`(?i)manifest unknown|name unknown|not found|does not exist|status:? (code )?404`)},
	{hopeless, regexp.MustCompile(`(?i)no matching manifest|invalid reference format|unsupported media type|repository name must be|server gave HTTP response to HTTPS|x509: |unknown blob`)},
}

// diagnose says what kind of trouble an engine's error is. What is not known counts as
// passing.
func diagnose(err error) trouble {
	text := err.Error()
	for _, s := range symptoms {
		if s.text.MatchString(text) {
			return s.kind
		}
	}
	return transient
}

// explainPull says what a failed pull means and what to do about it.
func (i *images) explainPull(ref string, kind trouble, err error) error {
	registry := registryOf(ref)
	name := registry
	if registry == dockerHub {
		name = "Docker Hub"
	}
	switch kind {
	case rateLimited:
		return fmt.Errorf("pull the image %s: %w: %w; wait, log in (docker login) for a higher limit, lower env.max_image_pulls, or give the engine a mirror (registry-mirrors in daemon.json)", ref, ErrRateLimited, err)
	case notFound:
		return fmt.Errorf("pull the image %s: %w at %s: %w; check its name and tag, or load it by hand (docker load, docker import)", ref, ErrImageNotFound, name, err)
	case denied:
		return fmt.Errorf("pull the image %s: %w (or does not have it): %w; check its name, or docker login %s", ref, ErrImageDenied, err, strings.TrimPrefix(registry, dockerHub))
	case diskFull:
		return i.explainFull("pull the image "+ref, err)
	case hopeless:
		return fmt.Errorf("pull the image %s: %w", ref, err)
	}
	return fmt.Errorf("pull the image %s: %w; check the network and whether %s answers, or load the image by hand (docker load, docker import)", ref, err, name)
}

// explainFull says how to make space on the engine's disk.
func (i *images) explainFull(what string, err error) error {
	ours := i.budget.held()
	return fmt.Errorf("%s: %w: %w; the images of this run hold %s of it: remove images nobody needs (docker image prune -a), what builds have left (docker builder prune), or set env.image_disk_budget_gb", what, ErrDiskFull, err, gigabytes(ours))
}

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
