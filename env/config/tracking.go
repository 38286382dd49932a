package config

// Tracking is the part of the env: section about what is written for people to watch a
// run with. Nothing in it changes a result.
type Tracking struct {
	UseWandb     bool   `yaml:"use_wandb" default:"false" affects:"no" help:"write the run's figures as an offline run of Weights & Biases too, into the folder wandb of the run directory, for wandb sync to upload; nothing is sent. The original had it true"`
	WandbName    string `yaml:"wandb_name" nullable:"true" affects:"no" help:"name of the run there, to which the date and six letters are added, and of the worker for its trainer; null is the environment's name"`
	WandbProject string `yaml:"wandb_project" nullable:"true" affects:"no" help:"project of the run there; null leaves it to the trainer, or to wandb sync --project"`
	WandbGroup   string `yaml:"wandb_group" nullable:"true" affects:"no" help:"group of the run there; null leaves it to the trainer"`

	NumRolloutsToKeep             int    `yaml:"num_rollouts_to_keep" default:"32" min:"0" unit:"groups" affects:"no" help:"groups in the table of rollouts that goes with each log of figures, the latest ones; 0 makes no table"`
	NumRolloutsPerGroupForLogging int    `yaml:"num_rollouts_per_group_for_logging" default:"1" min:"-1" unit:"rollouts" affects:"no" help:"rollouts of a group in that table; -1 is all of them"`
	MinItemsSentBeforeLogging     int    `yaml:"min_items_sent_before_logging" default:"2" unit:"groups" affects:"no" help:"groups that have to be over before figures are logged again; 0 or less logs after each"`
	Report                        string `yaml:"report" default:"auto" choices:"auto,always,never" affects:"no" help:"write report.html into the run directory at the end; auto does so for runs of up to 5,000 rollouts and 256 MiB"`
}
