package openai

func loadPromptForTest() (*prompt, error) {
	return loadPrompt(templates(""), "entails", schemas["entails"])
}
